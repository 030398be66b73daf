"""One side of the throughput bench: `iterating.py worker|plain CASE`, in the worker's environment.

Trains a round for each line on stdin and answers with the steps done and the CPU time that this process took. `worker`
is the worker's own runtime, telemetry included; `plain` what one would write for XuanCe alone, with the same two
corrections to what it stores, and without its TensorBoard files, which the worker does not write either.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ENVS = 8
ROUND = 4_000
REPLAY = {"buffer_size": 40_000, "start_training": 1_000, "training_frequency": 40}
# XuanCe's agent, and hyperparameters in the place of its defaults for simple_spread.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mappo": ("MAPPO", {"buffer_size": 1_600, "n_epochs": 5}),
    "ippo": ("IPPO", {"buffer_size": 1_600, "n_epochs": 5}),
    "qmix": ("QMIX", REPLAY),
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
    from xuance_worker.config import XuanCeWorkerConfig
    from xuance_worker.runtime import XuanCeWorkerRuntime
    from xuance_worker.worker import XuanCeWorker

    class InTurns(TelemetryEmitter):
        def metric(self, step: int, values: Mapping[str, Any]) -> None:
            super().metric(step, values)
            tell(step)

    content = {
        "run_id": "throughput",
        "algorithm": case,
        "total_timesteps": 10**8,
        "parallels": ENVS,
        "report_every": ROUND,
        "hyperparameters": CASES[case][1],
    }
    config = build_config(XuanCeWorkerConfig, XuanCeWorker().describe(), content)
    with tempfile.TemporaryDirectory() as folder:
        place = RunPlace(config.run_id, Path(folder), 1, None, supervised=False)
        telemetry = InTurns(Stream(os.open(os.devnull, os.O_WRONLY)))
        run = Run(place, worker="xuance", telemetry=telemetry, control=Control(supervised=False))
        XuanCeWorkerRuntime(config, run).run()


def train_plainly(case: str, tell: Tell) -> None:
    import xuance
    from xuance.common import load_yaml
    from xuance.environment import make_envs
    from xuance.torch.agents import REGISTRY_Agents
    from xuance.torch.agents.base import agents_marl

    from xuance_worker import corrections

    register_spread()
    agents_marl.SummaryWriter = NoWriter
    folder = Path(xuance.__file__).parent / "configs"
    values = {
        **load_yaml(str(folder / "basic.yaml")),
        **load_yaml(str(folder / case / "mpe" / "simple_spread_v3.yaml")),
    }
    with tempfile.TemporaryDirectory() as logs:
        own = {"env_name": "plain", "vectorize": "DummyVecMultiAgentEnv", "parallels": ENVS, "running_steps": 10**8}
        config = Namespace(**{**values, **CASES[case][1], **own, "log_dir": logs, "model_dir": logs, "render": False})
        config.agent = CASES[case][0]
        if "decay_step_greedy" in values:
            config.decay_step_greedy = 10**8 // 2
        envs = make_envs(config)
        corrections.keep_first_transition(envs)
        corrections.remember_states(envs)
        envs.reset()
        agents = REGISTRY_Agents[config.agent](config, envs)
        corrections.keep_states_apart(agents)
        steps = 0
        while True:
            agents.train(ROUND // ENVS)
            steps += ROUND
            tell(steps)


class NoWriter:
    def __init__(self, *_: Any) -> None:
        pass

    def add_scalar(self, *_: Any) -> None:
        pass

    add_scalars = add_scalar


def register_spread() -> None:
    """simple_spread for XuanCe, in few words: its own is made for a PettingZoo that had these games."""
    import numpy as np
    from gymnasium import spaces
    from mpe2 import simple_spread_v3
    from xuance.environment import REGISTRY_MULTI_AGENT_ENV, RawMultiAgentEnv

    class Spread(RawMultiAgentEnv):
        def __init__(self, config: Any) -> None:
            super().__init__()
            self.env = simple_spread_v3.parallel_env()
            self.env.reset(seed=config.env_seed)
            self.agents = self.env.possible_agents
            self.num_agents = len(self.agents)
            self.observation_space = {agent: self.env.observation_space(agent) for agent in self.agents}
            self.action_space = {agent: self.env.action_space(agent) for agent in self.agents}
            self.state_space = spaces.Box(-np.inf, np.inf, self.env.state().shape, np.float32)
            self.max_episode_steps = 25
            self.agent_groups = [self.agents]

        def reset(self) -> Any:
            return self.env.reset()

        def step(self, actions: Any) -> Any:
            chosen = {agent: int(action) for agent, action in actions.items()}
            observations, rewards, terminated, truncated, infos = self.env.step(chosen)
            return observations, rewards, terminated, all(truncated.values()), infos

        def state(self) -> Any:
            return self.env.state()

        def agent_mask(self) -> Any:
            return dict.fromkeys(self.agents, True)

        def avail_actions(self) -> Any:
            return None

        def close(self) -> None:
            self.env.close()

    REGISTRY_MULTI_AGENT_ENV["plain"] = Spread


def main(side: str, case: str) -> None:
    os.environ["TQDM_DISABLE"] = "1"  # read when torch imports tqdm
    import torch

    tell = tell_in_turns()
    torch.set_num_threads(1)
    {"worker": train_with_worker, "plain": train_plainly}[side](case, tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
