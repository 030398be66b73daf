"""`RayWorkerRuntime`: one training run, from the first step or from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mosaic.worker import Command, Run
from ray_worker.analytics import training_summary
from ray_worker.cluster import cluster
from ray_worker.config import RayWorkerConfig
from ray_worker.environments import EnvironmentFactory, EnvironmentFacts
from ray_worker.mutations import cpus_for_population
from ray_worker.policies import PolicyPlan, plan_policies
from ray_worker.saving import card_facts, resume_folder, save

if TYPE_CHECKING:
    from ray_worker.training import Training

__all__ = ["EnvironmentFactory", "RayWorkerRuntime"]


class Stopped(BaseException):
    """The run was told to stop in the middle of an iteration. Not an Exception: RLlib must not handle it."""


class RayWorkerRuntime:
    """Trains, reports, saves, obeys."""

    def __init__(self, config: RayWorkerConfig, run: Run) -> None:
        self._config = config
        self._run = run
        self._facts: EnvironmentFacts = EnvironmentFactory(config.environment).facts()
        self._plan: PolicyPlan = plan_policies(config, self._facts)
        self._card = card_facts(config, self._facts, self._plan)
        self._saved_at = -1
        self._save_requested = False
        self._stopped = False

    def run(self) -> Mapping[str, Any]:
        """Train with the Ray that the config asks for."""
        cpus = cpus_for_population(self._config) if self._config.population.size else None
        with cluster(self._config.resources, self._run.attempt, cpus):
            return self.train()

    def train(self) -> Mapping[str, Any]:
        """Train with the Ray that is there, up to the budget or until told to stop."""
        if self._config.population.size:
            from ray_worker.population import Population

            return Population(self._config, self._run, self._card).train()
        return self._train_one()

    def _train_one(self) -> Mapping[str, Any]:
        # Not at the top: RLlib takes seconds to import, and a bad config should be told at once.
        from ray_worker.listening import listening
        from ray_worker.training import Training, TrainingState, read_state

        resume = resume_folder(self._run, self._card)
        with listening(self._obey):
            try:
                training = Training(self._config, self._facts, self._plan, self._run.telemetry, resume)
            except Stopped:
                # Before it has begun there is nothing to save.
                return training_summary(read_state(resume) if resume else TrainingState())
            try:
                self._train(training)
            finally:
                training.stop()
        return training_summary(training.state, training.reporter.recent_return, training.league)

    def _train(self, training: Training) -> None:
        budget = self._config.training.total_timesteps
        frequency = self._config.checkpoint.frequency
        state = training.state
        due = state.step + frequency
        try:
            while state.step < budget:
                self._obey()
                training.iterate()
                if self._save_requested or (frequency and state.step >= due):
                    self._save(training)
                    due = state.step + frequency
        except Stopped:
            training.break_off()
        if self._saved_at != state.step:
            self._save(training)

    def _obey(self) -> None:
        """A pause is spent in here. Saving waits for the end of the iteration, stopping does not."""
        if self._stopped or not self._run.control.pending:
            return
        command = self._run.poll()
        if command is Command.CHECKPOINT:
            self._save_requested = True
        elif command is Command.STOP:
            # Said once: what follows, such as saving, is not to be stopped in its turn.
            self._stopped = True
            raise Stopped

    def _save(self, training: Training) -> None:
        save(self._run, self._config, self._card, training.state.step, training.write)
        self._saved_at, self._save_requested = training.state.step, False
