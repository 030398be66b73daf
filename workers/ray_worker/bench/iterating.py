"""One side of the throughput bench: `iterating.py worker|plain CASE`, in the worker's environment.

Trains one iteration for each line on stdin and answers with the steps done and the CPU time that this process took.
`worker` is the worker's own runtime, telemetry included; `plain` what one would write for RLlib alone, with its own
wrapper for PettingZoo where there is one that works.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Of the same size on both sides, small enough for playing to weigh as much as learning.
PPO = {"train_batch_size_per_learner": 2000, "minibatch_size": 256, "num_epochs": 4, "lr": 0.0003}
DQN = {"num_steps_sampled_before_learning_starts": 500, "train_batch_size_per_learner": 32}
MODEL = {"fcnet_hiddens": [64, 64]}
ENVS = 8
CARTPOLE = {"family": "gymnasium", "env_id": "CartPole-v1"}
SPREAD = {"family": "mpe", "env_id": "simple_spread_v3", "env_kwargs": {"max_cycles": 25}}
TICTACTOE = {"family": "classic", "env_id": "tictactoe_v3"}
WATERWORLD = {"family": "sisl", "env_id": "waterworld_v4"}
# Environment, algorithm, hyperparameters, who shares a policy.
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any], str]] = {
    "ppo_cartpole": (CARTPOLE, "PPO", PPO, "PARAMETER_SHARING"),
    "dqn_cartpole": (CARTPOLE, "DQN", DQN, "PARAMETER_SHARING"),
    "ppo_spread": (SPREAD, "PPO", PPO, "INDEPENDENT"),
    "ppo_waterworld": (WATERWORLD, "PPO", PPO, "PARAMETER_SHARING"),
    "ppo_tictactoe": (TICTACTOE, "PPO", PPO, "PARAMETER_SHARING"),
}
Tell = Callable[[int], None]


def tell_in_turns() -> Tell:
    """A function that says how far one has come, and then waits until it is asked to go on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    before = {"steps": 0, "cpu": 0.0}

    def tell(steps: int) -> None:
        cpu = time.process_time()
        print(json.dumps({"steps": steps - before["steps"], "cpu": cpu - before["cpu"]}), file=out, flush=True)
        if not sys.stdin.readline():
            out.close()
            raise SystemExit
        before.update(steps=steps, cpu=time.process_time())

    return tell


def train_with_worker(case: str, tell: Tell) -> None:
    from mosaic.worker.config import build_config
    from mosaic.worker.control import Control
    from mosaic.worker.run import Run, RunPlace
    from mosaic.worker.telemetry import Stream, TelemetryEmitter
    from ray_worker.config import RayWorkerConfig
    from ray_worker.runtime import RayWorkerRuntime
    from ray_worker.worker import RayWorker

    class InTurns(TelemetryEmitter):
        def metric(self, step: int, values: Mapping[str, Any]) -> None:
            super().metric(step, values)
            tell(step)

    environment, algorithm, parameters, policies = CASES[case]
    content = {
        "run_id": "throughput",
        "environment": environment,
        "policy_configuration": policies,
        "training": {
            "algorithm": algorithm,
            "total_timesteps": 10**9,
            "hyperparameters": {**parameters, "model_config": MODEL},
        },
        "resources": {"num_workers": 0, "num_envs_per_worker": ENVS},
    }
    config = build_config(RayWorkerConfig, RayWorker().describe(), content)
    with tempfile.TemporaryDirectory() as folder:
        place = RunPlace(config.run_id, Path(folder), 1, None, supervised=False)
        telemetry = InTurns(Stream(os.open(os.devnull, os.O_WRONLY)))
        run = Run(place, worker="ray", telemetry=telemetry, control=Control(supervised=False))
        RayWorkerRuntime(config, run).train()


def train_plainly(case: str, tell: Tell) -> None:
    algorithm = plain_config(case).build_algo()
    while True:
        tell(int(algorithm.train()["num_env_steps_sampled_lifetime"]))


def plain_config(case: str) -> Any:
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    environment, algorithm, parameters, policies = CASES[case]
    config = {"PPO": PPOConfig, "DQN": DQNConfig}[algorithm]().training(**parameters)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS)
    config.rl_module(model_config=MODEL)
    if environment["family"] == "gymnasium":
        return config.environment(environment["env_id"])
    agents = _register(environment)
    config.environment("plain", env_config=environment, disable_env_checking=True)
    if policies == "INDEPENDENT":
        config.multi_agent(policies=set(agents), policy_mapping_fn=lambda agent, *_, **__: agent)
    else:
        config.multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
    if environment["family"] == "classic":
        from ray_worker.modules import MaskedPPOModule

        config.rl_module(rl_module_spec=RLModuleSpec(module_class=MaskedPPOModule, model_config=MODEL))
    return config


def _register(environment: Mapping[str, Any]) -> list[str]:
    """RLlib's wrapper, or the worker's for the game whose masks RLlib's cannot take."""
    from mpe2 import simple_spread_v3
    from pettingzoo.sisl import waterworld_v4
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
    from ray.tune.registry import register_env

    from ray_worker.rllib_env import MultiAgentGame

    if environment["family"] == "classic":
        register_env("plain", MultiAgentGame)
        return []
    module = {"mpe": simple_spread_v3, "sisl": waterworld_v4}[environment["family"]]
    arguments = environment.get("env_kwargs", {})
    register_env("plain", lambda _: ParallelPettingZooEnv(module.parallel_env(**arguments)))
    return list(module.parallel_env(**arguments).possible_agents)


def main(side: str, case: str) -> None:
    from ray_worker.cluster import own_cluster
    from ray_worker.config import ResourceConfig

    tell = tell_in_turns()
    # The same Ray for both: it plays no part with all in one process, and leaves nothing behind.
    with own_cluster(ResourceConfig(num_workers=0), 1):
        {"worker": train_with_worker, "plain": train_plainly}[side](case, tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
