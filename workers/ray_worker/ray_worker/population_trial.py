"""One member of a population, as Ray Tune sees it: a training in a process of its own.

What it has to say travels with its results; the run's main process says it on the run's stream.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from ray import tune

from mosaic.worker.messages import AnyMessage, Message
from mosaic.worker.telling import Teller
from ray_worker.cluster import quieten
from ray_worker.config import RayWorkerConfig
from ray_worker.environments import EnvironmentFactory
from ray_worker.policies import plan_policies
from ray_worker.training import Training

STATE_FILE = "member.json"
# The parts of a result.
MESSAGES, GENERATION, SCORE, STEP = "messages", "generation", "score", "env_steps"
# A member that has not told the metric yet is the worst.
NO_SCORE = float("-inf")


class MemberState(msgspec.Struct):
    """What goes on with a member's training, beside that training's own state."""

    generation: int = 0
    score: float | None = None


class Messenger(Teller):
    """Keeps what is said until it is fetched."""

    def __init__(self) -> None:
        self._said: list[Message] = []
        self.metrics: dict[str, Any] = {}

    def emit(self, message: Message) -> None:
        message.time = time.time()
        self._said.append(message)

    def metric(self, step: int, values: Any) -> None:
        super().metric(step, values)
        self.metrics |= values

    def fetch(self) -> bytes:
        said, self._said = self._said, []
        return msgspec.json.encode(said)


def read_messages(data: bytes) -> list[AnyMessage]:
    return msgspec.json.decode(data, type=list[AnyMessage])


def index_of(trial_id: str) -> int:
    """Tune numbers the trials that it makes, and copies all else from one to another."""
    return int(trial_id.rsplit("_", 1)[1])


class PopulationTrial(tune.Trainable):
    """Its config: `run` (the run's config), `hyperparameters` (its own), `resume` (a folder for each trial, or none)
    and `generation` (how many exchanges there have been before this attempt)."""

    def setup(self, config: dict[str, Any]) -> None:
        quieten()
        self._settings = config
        self._training: Training | None = None
        self._state = MemberState()
        self._messenger = Messenger()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """The process goes on as another trial, or with other hyperparameters; what it loads comes next."""
        self.cleanup()
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        if self._training is None:
            resume = self._settings["resume"][index_of(self.trial_id)]
            self._build(Path(resume) if resume else None)
        training = self._training
        assert training is not None
        population, budget = self._config.population, self._config.training.total_timesteps
        if training.state.step < budget:
            training.iterate()
        self._state.score = self._messenger.metrics.get(population.metric, self._state.score)
        # Never two at once: all members take part in every exchange.
        exchanges = -(-budget // population.interval) - 1
        done = training.state.step >= budget and self._state.generation >= exchanges
        if training.state.step >= (self._state.generation + 1) * population.interval or training.state.step >= budget:
            self._state.generation += 1
        return {
            MESSAGES: self._messenger.fetch(),
            # Of this attempt: the scheduler counts from its own beginning.
            GENERATION: self._state.generation - self._settings["generation"],
            SCORE: NO_SCORE if self._state.score is None else float(self._state.score),
            STEP: training.state.step,
            "episodes": training.state.episodes,
            "done": done,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        assert self._training is not None
        folder = Path(checkpoint_dir)
        self._training.write(folder)
        (folder / STATE_FILE).write_bytes(msgspec.json.encode(self._state))
        # It would be kept with the checkpoint.
        if self._last_result:
            self._last_result.pop(MESSAGES, None)

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.cleanup()
        self._build(Path(checkpoint))

    def cleanup(self) -> None:
        if self._training is not None:
            self._training.stop()
            self._training = None

    def _build(self, resume: Path | None) -> None:
        run: RayWorkerConfig = msgspec.convert(self._settings["run"], RayWorkerConfig)
        index = index_of(self.trial_id)
        # Each plays other episodes, also where two have the same state to begin with.
        training = replace(
            run.training, hyperparameters=self._settings["hyperparameters"], seed=run.training.seed + index
        )
        self._config = replace(run, training=training)
        facts = EnvironmentFactory(self._config.environment).facts()
        if resume is not None:
            self._state = msgspec.json.decode((resume / STATE_FILE).read_bytes(), type=MemberState)
        self._training = Training(self._config, facts, plan_policies(self._config, facts), self._messenger, resume)
