"""How good is a checkpoint? `judging.py CHECKPOINT GAMES`, in the worker's environment; the answer is a line of JSON.

A league's policy plays against random play and against the first snapshot, seats swapped. Any other policies play
together, and so does random play, on the same seeds.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ray_worker import PolicyEvaluator, RayPolicyActor, RayPolicyConfig, create_ray_actor
from ray_worker.evaluation_results import Record
from ray_worker.policy_actor import RandomActor

FIRST = f"snapshot_{0:012d}"


def judge(checkpoint: Path, games: int) -> dict[str, Any]:
    actor = create_ray_actor(RayPolicyConfig(checkpoint, name="trained"))
    if FIRST in actor.content.policies:
        return _judge_league(checkpoint, games)
    with PolicyEvaluator(actor.content.environment_config) as evaluator:
        random = RandomActor(evaluator.game.action_spaces)
        played = {"trained": evaluator.evaluate(actor, games), "random": evaluator.evaluate(random, games)}
    return {name: asdict(results.total_return) for name, results in played.items()}


def _judge_league(checkpoint: Path, games: int) -> dict[str, Any]:
    trained = _policy(checkpoint, "main", name="trained")
    # Drawing actions, as any policy that has not learned: else every game would be the same one.
    first = _policy(checkpoint, FIRST, name="first", explore=True)
    with PolicyEvaluator(trained.content.environment_config) as evaluator:
        random = RandomActor(evaluator.game.action_spaces)
        records = {
            name: evaluator.match((trained, rival), games).actor_record("trained")
            for name, rival in (("random", random), ("first", first))
        }
    return {f"against_{name}": _told(record) for name, record in records.items()}


def _policy(checkpoint: Path, policy: str, *, name: str, explore: bool = False) -> RayPolicyActor:
    return create_ray_actor(RayPolicyConfig(checkpoint, policy=policy, name=name, explore=explore, seed=0))


def _told(record: Record) -> dict[str, Any]:
    return {**asdict(record), "win_rate": asdict(record.win_rate)}


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]), int(sys.argv[2]))))
