"""`RayWorkerRuntime`: one training run, from the first step or from a checkpoint."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mosaic.worker import CheckpointError, Command, Run
from ray_worker.cluster import cluster
from ray_worker.config import RayWorkerConfig
from ray_worker.environments import EnvironmentFactory, EnvironmentFacts
from ray_worker.league import League
from ray_worker.policies import PolicyPlan, plan_policies

__all__ = ["EnvironmentFactory", "RayWorkerRuntime"]

ALGORITHM_FOLDER = "algorithm"
STATE_FILE = "state.json"
BUFFER_FILE = "replay_buffer.pkl"
# Any large odd number will do: seeds of attempts that go on from different steps must not meet.
SEED_STRIDE = 1_000_003


class Stopped(BaseException):
    """The run was told to stop in the middle of an iteration. Not an Exception: RLlib must not handle it."""


class RunState(msgspec.Struct):
    """What goes on after a resume and is not RLlib's to keep."""

    step: int
    episodes: int = 0


class RayWorkerRuntime:
    """Builds the algorithm, trains it, reports, saves, obeys."""

    def __init__(self, config: RayWorkerConfig, run: Run) -> None:
        self._config = config
        self._run = run
        self._facts: EnvironmentFacts = EnvironmentFactory(config.environment).facts()
        self._plan: PolicyPlan = plan_policies(config, self._facts)
        self._state = RunState(0)
        self._league = League.of(config, self._plan)
        self._saved_at = -1
        self._save_requested = False

    def run(self) -> Mapping[str, Any]:
        """Train with the Ray that the config asks for."""
        with cluster(self._config.resources, self._run.attempt):
            return self.train()

    def train(self) -> Mapping[str, Any]:
        """Train with the Ray that is there, up to the budget or until told to stop."""
        # Not at the top: RLlib takes seconds to import, and a bad config should be told at once.
        from ray_worker import building, callbacks
        from ray_worker.telemetry import Reporter

        resume = self._resume_folder()
        seed = (self._config.training.seed + SEED_STRIDE * self._state.step) % 2**31
        algorithm = building.build_config(self._config, self._facts, self._plan, seed).build_algo()
        reporter = Reporter(self._run.telemetry, self._state.episodes)
        callbacks.set_step_hook(self._obey_between_steps)
        try:
            if resume is not None:
                algorithm.restore_from_path(str(resume / ALGORITHM_FOLDER))
                self._restore_buffer(algorithm, resume)
                if self._league:
                    self._league.restore(resume)
            elif self._league:
                self._league.begin(algorithm)
            self._train(algorithm, reporter)
        finally:
            callbacks.set_step_hook(None)
            algorithm.stop()
        return {"steps": self._state.step, "episodes": reporter.episodes, "recent_return": reporter.recent_return}

    def _resume_folder(self) -> Path | None:
        card = self._run.resume_card
        if card is None or self._run.resume_folder is None:
            return None
        training, environment = self._config.training, self._config.environment
        for what, saved, wanted in (
            ("worker", card.worker, "ray"),
            ("algorithm", card.algorithm, training.algorithm),
            ("environment", card.environment, environment.env_id),
            ("policies", card.extra.get("policies"), sorted(self._plan.policies)),
        ):
            if saved != wanted:
                raise CheckpointError(
                    f"checkpoint {self._run.resume_folder.name}: its {what} is {saved!r}, this run's {wanted!r}"
                )
        self._state = msgspec.json.decode((self._run.resume_folder / STATE_FILE).read_bytes(), type=RunState)
        return self._run.resume_folder

    def _restore_buffer(self, algorithm: Any, checkpoint: Path) -> None:
        """RLlib's checkpoints leave the replay buffer out. It is pickled, as all of RLlib's own state is."""
        if (checkpoint / BUFFER_FILE).exists() and self._config.checkpoint.replay_buffer:
            algorithm.local_replay_buffer.set_state(pickle.loads((checkpoint / BUFFER_FILE).read_bytes()))

    def _train(self, algorithm: Any, reporter: Any) -> None:
        budget = self._config.training.total_timesteps
        frequency = self._config.checkpoint.frequency
        due = self._state.step + frequency
        try:
            while self._state.step < budget:
                self._obey_between_steps()
                self._iterate(algorithm, reporter)
                if self._league:
                    self._league.after_iteration(algorithm, self._state.step, self._run.telemetry)
                if self._save_requested or (frequency and self._state.step >= due):
                    self._save(algorithm)
                    due = self._state.step + frequency
        except Stopped:
            pass
        if self._saved_at != self._state.step:
            self._save(algorithm)

    def _obey_between_steps(self) -> None:
        """A pause is spent in here. Saving waits for the end of the iteration, stopping does not."""
        if not self._run.control.pending:
            return
        command = self._run.poll()
        if command is Command.CHECKPOINT:
            self._save_requested = True
        elif command is Command.STOP:
            raise Stopped

    def _iterate(self, algorithm: Any, reporter: Any) -> None:
        begun, before = time.monotonic(), self._state.step
        result = algorithm.train()
        self._state.step = int(result["num_env_steps_sampled_lifetime"])
        reporter.report(self._state.step, self._state.step - before, time.monotonic() - begun, result)
        self._state.episodes = reporter.episodes

    def _save(self, algorithm: Any) -> None:
        from ray_worker import export

        def write(folder: Path) -> None:
            algorithm.save_to_path(str(folder / ALGORITHM_FOLDER))
            (folder / STATE_FILE).write_bytes(msgspec.json.encode(self._state))
            buffer = getattr(algorithm, "local_replay_buffer", None)
            if buffer is not None and self._config.checkpoint.replay_buffer:
                (folder / BUFFER_FILE).write_bytes(pickle.dumps(buffer.get_state()))
            snapshots = self._league.save(folder) if self._league else None
            export.write_policies(folder, algorithm, self._config, self._plan, snapshots)

        path = self._run.save_checkpoint(
            self._state.step,
            write,
            algorithm=self._config.training.algorithm,
            environment=self._config.environment.env_id,
            seed=self._config.training.seed,
            observation_space=_join(self._facts.observation_spaces),
            action_space=_join(self._facts.action_spaces),
            agents=list(self._facts.agents),
            extra={
                "family": self._config.environment.family.value,
                "policy_configuration": self._config.policy_configuration.value,
                "policies": sorted(self._plan.policies),
            },
            keep=self._config.checkpoint.keep or None,
        )
        self._saved_at, self._save_requested = self._state.step, False
        if self._config.checkpoint.directory:
            target = Path(self._config.checkpoint.directory).expanduser() / self._run.id / path.name
            shutil.copytree(path, target, dirs_exist_ok=True)


def _join(spaces: Mapping[str, Any]) -> str:
    """The spaces of all agents, each kind told once."""
    return "; ".join(dict.fromkeys(str(space) for space in spaces.values()))
