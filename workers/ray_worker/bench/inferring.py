"""How long one action takes: `inferring.py CHECKPOINT`, in the worker's environment; the answer is a line of JSON.

The worker's actor and RLlib's own module in eval mode choose for the same observations, by turns. Both start from what
the environment shows and end with an action for it; for both, what is not allowed is masked.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.spaces.space_utils import unsquash_action

from ray_worker import RayPolicyConfig, create_ray_actor
from ray_worker.environments import EnvironmentFactory
from ray_worker.policy_actor import RandomActor
from ray_worker.rllib_env import encode

OBSERVATIONS = 64
BLOCKS = 15
BLOCK_S = 0.2

Choose = Callable[[Any, str], Any]


def main(checkpoint: Path) -> None:
    actor = create_ray_actor(RayPolicyConfig(checkpoint))
    content = actor.content
    seen = list(_observations(content))
    sides: dict[str, Choose] = {
        "worker": lambda observation, agent: actor.select_action(observation, {"agent": agent}),
        "rllib": _rllib(checkpoint, content),
    }
    for observation, agent in seen:
        one, other = (choose(observation, agent) for choose in sides.values())
        assert np.allclose(one, other, atol=1e-4), f"{one} is not {other}"
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(BLOCKS):
        for name, choose in sides.items():
            times[name].append(_seconds(choose, seen))
    ratios = [theirs / ours for ours, theirs in zip(times["worker"], times["rllib"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    told = {f"{name}_us": 1e6 * statistics.median(values) for name, values in times.items()}
    print(json.dumps({**told, "faster": middle, "quartiles": [low, high]}))


def _observations(content: Any) -> Any:
    """What the agents of some games at random get to see."""
    game = EnvironmentFactory(content.environment_config).make()
    dice = RandomActor(game.action_spaces)
    turn, found = game.reset(0), 0
    while found < OBSERVATIONS:
        for agent in turn.to_act:
            found += 1
            yield turn.observations[agent], agent
        if turn.over:
            turn = game.reset(found)
        else:
            turn = game.step(
                {agent: dice.select_action(turn.observations[agent], {"agent": agent}) for agent in turn.to_act}
            )
    game.close()


def _rllib(checkpoint: Path, content: Any) -> Choose:
    """As one would write it: load the module, switch it to evaluation, take the best action."""
    folder = checkpoint / "algorithm" / "learner_group" / "learner" / "rl_module"
    modules: dict[str, Any] = {}
    for agent, policy in content.mapping.items():
        path = folder / policy if (folder / policy).exists() else folder / "default_policy"
        modules[agent] = RLModule.from_checkpoint(str(path.resolve()))
        modules[agent].eval()

    def choose(observation: Any, agent: str) -> Any:
        module = modules[agent]
        encoded = encode(content.codecs[agent], observation)
        if isinstance(encoded, dict):
            batch: Any = {name: torch.from_numpy(value[None]) for name, value in encoded.items()}
        else:
            batch = torch.from_numpy(np.asarray(encoded)[None])
        with torch.no_grad():
            output = module.forward_inference({Columns.OBS: batch})
            if Columns.ACTIONS in output:
                return output[Columns.ACTIONS].numpy()[0]
            actions = module.get_inference_action_dist_cls().from_logits(output[Columns.ACTION_DIST_INPUTS])
            action = actions.to_deterministic().sample().numpy()[0]
        return unsquash_action(action, module.action_space)

    return choose


def _seconds(choose: Choose, seen: list[tuple[Any, str]]) -> float:
    """CPU time for one action."""
    begun, done = time.process_time(), 0
    while time.process_time() - begun < BLOCK_S:
        for observation, agent in seen:
            choose(observation, agent)
        done += len(seen)
    return (time.process_time() - begun) / done


if __name__ == "__main__":
    main(Path(sys.argv[1]))
