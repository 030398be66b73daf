"""Loads a checkpoint and acts once: `first_action.py CHECKPOINT OBSERVATION`. Started anew for every measurement."""

import json
import sys

from ray_worker import RayPolicyConfig, create_ray_actor

actor = create_ray_actor(RayPolicyConfig(checkpoint_path=sys.argv[1]))
print(actor.select_action(json.loads(sys.argv[2]), {}))
assert not {"ray", "torch"} & set(sys.modules)
