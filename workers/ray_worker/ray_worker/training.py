"""One algorithm that learns, with all that goes on after a resume: counters, league, replay buffer.

A run has one of these; each trial of a population has one in its own process.
"""

from __future__ import annotations

import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from mosaic.worker.telling import Teller
from ray_worker import building, export
from ray_worker.config import RayWorkerConfig
from ray_worker.environments import EnvironmentFacts
from ray_worker.league import League
from ray_worker.listening import listen_while_learning
from ray_worker.policies import PolicyPlan
from ray_worker.sharding import share_out_whole_pieces
from ray_worker.telemetry import Reporter

ALGORITHM_FOLDER = "algorithm"
STATE_FILE = "state.json"
BUFFER_FILE = "replay_buffer.pkl"
# Any large odd number will do: seeds of attempts that go on from different steps must not meet.
SEED_STRIDE = 1_000_003


class TrainingState(msgspec.Struct):
    """What goes on after a resume and is not RLlib's to keep."""

    step: int = 0
    episodes: int = 0


class Training:
    """Built for a fresh start or from a checkpoint's folder; then iteration by iteration."""

    def __init__(
        self,
        config: RayWorkerConfig,
        facts: EnvironmentFacts,
        plan: PolicyPlan,
        telemetry: Teller,
        resume: Path | None = None,
    ) -> None:
        self._config = config
        self._plan = plan
        self._telemetry = telemetry
        self.state = read_state(resume) if resume else TrainingState()
        self.league = League.of(config, plan)
        seed = (config.training.seed + SEED_STRIDE * self.state.step) % 2**31
        self.algorithm: Any = building.build_config(config, facts, plan, seed).build_algo()
        share_out_whole_pieces()
        listen_while_learning(self.algorithm)
        self.reporter = Reporter(telemetry, self.state.episodes)
        try:
            if resume is not None:
                self._restore(resume)
            elif self.league:
                self.league.begin(self.algorithm)
        except BaseException:
            self.stop()
            raise

    def iterate(self) -> None:
        """Play and learn once, and tell what came of it."""
        begun, before = time.monotonic(), self.state.step
        result = self.algorithm.train()
        self.state.step = int(result["num_env_steps_sampled_lifetime"])
        self.reporter.report(self.state.step, self.state.step - before, time.monotonic() - begun, result)
        self.state.episodes = self.reporter.episodes
        if self.league:
            self.league.after_iteration(self.algorithm, self.state.step, self._telemetry)

    def write(self, folder: Path) -> None:
        """Everything that it takes to go on, and every policy in a form that is served without RLlib."""
        self.algorithm.save_to_path(str(folder / ALGORITHM_FOLDER))
        (folder / STATE_FILE).write_bytes(msgspec.json.encode(self.state))
        buffer = getattr(self.algorithm, "local_replay_buffer", None)
        if buffer is not None and self._config.checkpoint.replay_buffer:
            (folder / BUFFER_FILE).write_bytes(pickle.dumps(buffer.get_state()))
        snapshots = self.league.save(folder) if self.league else None
        export.write_policies(folder, self.algorithm, self._config, self._plan, snapshots)

    def break_off(self) -> None:
        """An iteration will not be finished: what it has learned so far counts."""
        played = (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME)
        self.state.step = int(self.algorithm.metrics.peek(played, default=self.state.step))
        # They may be in the middle of a long game, which nobody waits for any more.
        self.algorithm.env_runner_group._worker_manager.clear()

    def stop(self) -> None:
        self.algorithm.stop()
        shutil.rmtree(self.algorithm.logdir, ignore_errors=True)

    def _restore(self, folder: Path) -> None:
        self.algorithm.restore_from_path(str(folder / ALGORITHM_FOLDER))
        # The optimizers came with the learning rates of then, and RLlib would correct them after one more iteration.
        step = self.state.step
        self.algorithm.learner_group.foreach_learner(lambda learner: _set_learning_rates(learner, step))
        # RLlib's checkpoints leave the replay buffer out. It is pickled, as all of RLlib's own state is.
        if (folder / BUFFER_FILE).exists() and self._config.checkpoint.replay_buffer:
            self.algorithm.local_replay_buffer.set_state(pickle.loads((folder / BUFFER_FILE).read_bytes()))
        if self.league:
            self.league.restore(folder)


def _set_learning_rates(learner: Any, step: int) -> None:
    for optimizer, schedule in learner._optimizer_lr_schedules.items():
        learner._set_optimizer_lr(optimizer, lr=schedule.update(timestep=step))


def read_state(folder: Path) -> TrainingState:
    return msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=TrainingState)
