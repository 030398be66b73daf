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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ENVS = 8
ROUND = 4_000
REPLAY = {"buffer_size": 40_000, "start_training": 1_000, "training_frequency": 40}
# On simple_spread; hyperparameters in the place of XuanCe's defaults.
CASES: dict[str, dict[str, Any]] = {
    "mappo": {"buffer_size": 1_600, "n_epochs": 5},
    "ippo": {"buffer_size": 1_600, "n_epochs": 5},
    "qmix": REPLAY,
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


def settled(case: str) -> Any:
    from mosaic.worker.config import build_config
    from xuance_worker.config import XuanCeWorkerConfig
    from xuance_worker.worker import XuanCeWorker

    content = {
        "run_id": "throughput",
        "algorithm": case,
        "total_timesteps": 10**8,
        "parallels": ENVS,
        "report_every": ROUND,
        "hyperparameters": CASES[case],
    }
    return build_config(XuanCeWorkerConfig, XuanCeWorker().describe(), content)


def train_with_worker(case: str, tell: Tell) -> None:
    from mosaic.worker.control import Control
    from mosaic.worker.run import Run, RunPlace
    from mosaic.worker.telemetry import Stream, TelemetryEmitter
    from xuance_worker.runtime import XuanCeWorkerRuntime

    class InTurns(TelemetryEmitter):
        def metric(self, step: int, values: Mapping[str, Any]) -> None:
            super().metric(step, values)
            tell(step)

    config = settled(case)
    with tempfile.TemporaryDirectory() as folder:
        place = RunPlace(config.run_id, Path(folder), 1, None, supervised=False)
        telemetry = InTurns(Stream(os.open(os.devnull, os.O_WRONLY)))
        run = Run(place, worker="xuance", telemetry=telemetry, control=Control(supervised=False))
        XuanCeWorkerRuntime(config, run).run()


def train_plainly(case: str, tell: Tell) -> None:
    from xuance.environment import make_envs
    from xuance.torch.agents import REGISTRY_Agents
    from xuance.torch.agents.base import agents_marl

    from xuance_worker import corrections
    from xuance_worker.building import settings_of
    from xuance_worker.plan import make_plan

    register_spread()
    agents_marl.SummaryWriter = NoWriter
    config = settled(case)
    with tempfile.TemporaryDirectory() as logs:
        # The worker's settings, so that both train the same networks in the same way.
        settings = settings_of(config, make_plan(config))
        settings.env_name, settings.vectorize = "plain", "DummyVecMultiAgentEnv"
        settings.log_dir = settings.model_dir = logs
        envs = make_envs(settings)
        corrections.keep_first_transition(envs)
        corrections.remember_states(envs)
        envs.reset()
        agents = REGISTRY_Agents[settings.agent](settings, envs)
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

        def render(self, *_: Any) -> Any:
            return self.env.render()

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
