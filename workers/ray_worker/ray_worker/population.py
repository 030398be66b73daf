"""Population-based training through Ray Tune, seen from the run's main process.

Each member is a child run with a lineage: which sibling's state it has taken over, and what it changed. Tune decides
who goes on from whom (all wait for each other at an exchange); what members say and save comes through here. A
checkpoint of the run holds the newest state of all members, and the best one's policies.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mosaic.worker import Command, Run
from mosaic.worker.messages import ChildStarted, RunCompleted, RunFailed
from ray_worker import policy_file
from ray_worker.analytics import population_summary
from ray_worker.config import RayWorkerConfig
from ray_worker.mutations import starting_points
from ray_worker.population_trial import (
    MESSAGES,
    NO_SCORE,
    SCORE,
    STEP,
    MemberState,
    index_of,
    read_messages,
)
from ray_worker.population_trial import STATE_FILE as MEMBER_FILE
from ray_worker.saving import resume_folder, save
from ray_worker.training import read_state
from ray_worker.tuning import tune_population

FILE = "population.json"
MEMBERS = "members"
# How long members may take to finish an iteration when the run is to stop; what they have saved before counts then.
STOP_S = 20.0
# Tune starts a member again whose process dies while it trains; when one dies otherwise, all start again, so often.
RESTARTS = 3
SEED_STRIDE = 1_000_003


class Member(msgspec.Struct):
    """One training of the population, as the main process knows it."""

    name: str
    hyperparameters: dict[str, Any]
    step: int = 0
    episodes: int = 0
    generation: int = 0
    score: float | None = None
    # The child run whose state it went on from last.
    parent: str = ""
    # Where its newest state lies: within a checkpoint, or while training where Tune has put it.
    folder: str = ""


class PopulationState(msgspec.Struct):
    members: list[Member]


class Population:
    def __init__(self, config: RayWorkerConfig, run: Run, card: Mapping[str, Any]) -> None:
        self._config = config
        self._run = run
        self._card = card
        self._home = run.folder / "tune"
        resume = resume_folder(run, card)
        self.members = _read(resume) if resume else _begin(config)
        self._generation = min(member.generation for member in self.members)
        self._steps = {member.name: member.step for member in self.members}
        self._told_step = min(self._steps.values())
        self._saved_steps: list[int] = []
        # A checkpoint was requested, and these have not saved their state for it yet.
        self._requested = False
        self._asked: set[str] = set()
        self._done: set[str] = set()
        self._stop_by: float | None = None
        self.failure = ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune writes down what it would begin again from, this included; a run goes on from its own checkpoints."""
        return (object, ())

    def train(self) -> Mapping[str, Any]:
        random.seed(self._config.training.seed + SEED_STRIDE * self._generation)
        shutil.rmtree(self._home, ignore_errors=True)
        try:
            for start in range(1 + RESTARTS):
                if self._tune(start):
                    break
                self._run.telemetry.log(f"{self.failure}; all go on from what they saved last", level="warning")
            else:
                raise RuntimeError(self.failure)
            if [member.step for member in self.members] != self._saved_steps:
                self._save()
        finally:
            shutil.rmtree(self._home, ignore_errors=True)
        return population_summary(self.members, self._best())

    def _tune(self, start: int) -> bool:
        """Train until the budget is spent, or the run is stopped; the answer is whether it came to that."""
        self.failure = ""
        for member in self.members:
            if member.name not in self._done:
                self._tell_begin(member, from_step=member.step if member.folder else None)
        tune_population(
            self,
            self._config,
            self._home / str(start),
            hyperparameters=[member.hyperparameters for member in self.members],
            resume=[member.folder for member in self.members],
            generation=min(member.generation for member in self.members),
        )
        return not self.failure

    # What Tune asks and tells.

    def hear(self, trial_id: str, result: dict[str, Any]) -> bool:
        """A member's result; the answer is whether it is to end."""
        member = self.members[index_of(trial_id)]
        for message in read_messages(result.pop(MESSAGES)):
            message.child = member.name
            self._run.telemetry.emit(message)
        member.score = None if result[SCORE] == NO_SCORE else float(result[SCORE])
        member.episodes = int(result["episodes"])
        self._steps[member.name] = int(result[STEP])
        self._tell_progress()
        if member.name in self._asked:
            result["should_checkpoint"] = True
        if result["done"] and member.name not in self._done:
            self._done.add(member.name)
            self._say(member, RunCompleted(step=int(result[STEP]), summary=_summary(member, int(result[STEP]))))
        elif self._stop_by is not None and member.name not in self._done:
            self._say(member, RunCompleted(step=int(result[STEP]), reason="stopped", summary={}))
        return self._stop_by is not None

    def saved(self, trial_id: str, folder: str) -> None:
        """A member's state lies in that folder."""
        member = self.members[index_of(trial_id)]
        _place(member, folder)
        self._asked.discard(member.name)
        self._save_if_complete()

    def taken_over(self, trial_id: str, donor_id: str, folder: str, hyperparameters: dict[str, Any]) -> None:
        """A member goes on from another's state, with that one's hyperparameters changed a little."""
        member, donor = self.members[index_of(trial_id)], self.members[index_of(donor_id)]
        changed = {
            name: [donor.hyperparameters.get(name), value]
            for name, value in hyperparameters.items()
            if donor.hyperparameters.get(name) != value
        }
        member.hyperparameters, member.parent = hyperparameters, donor.name
        _place(member, folder)
        self._steps[member.name] = member.step
        self._tell_begin(member, from_step=member.step, parent=donor.name, changed=changed)
        self._save_if_complete()

    def lost(self, trial_id: str) -> None:
        """A member's process has died, and is started again from what was saved last."""
        member = self.members[index_of(trial_id)]
        self._run.telemetry.log(
            f"{member.name}: its process has died, it goes on from step {member.step}", level="warning"
        )
        self._tell_begin(member, from_step=member.step if member.folder else None)

    def failed(self, trial_id: str, error: str) -> None:
        member = self.members[index_of(trial_id)]
        self.failure = f"{member.name} of the population failed: {error}"
        self._done.discard(member.name)
        self._say(member, RunFailed(error=error))

    def obey(self) -> None:
        """A pause is spent in here, while the members wait for what comes of their results."""
        if not self._run.control.pending or self._stop_by is not None:
            return
        command = self._run.poll()
        if command is Command.CHECKPOINT:
            self._requested = True
            self._asked = {member.name for member in self.members} - self._done
        elif command is Command.STOP:
            self._stop_by = time.monotonic() + STOP_S

    @property
    def is_ending(self) -> bool:
        """Whether no member will train on after what it does now."""
        return bool(self.failure) or self._stop_by is not None or len(self._done) == len(self.members)

    def is_over(self, running: int) -> bool:
        """Whether Tune is to end, whoever still trains."""
        if self.failure:
            return True
        return self._stop_by is not None and (not running or time.monotonic() > self._stop_by)

    # What the run says and saves.

    def _tell_begin(
        self, member: Member, *, from_step: int | None, parent: str = "", changed: dict[str, Any] | None = None
    ) -> None:
        config = dict(member.hyperparameters)  # all else is the run's
        self._say(member, ChildStarted(config=config, parent=parent, from_step=from_step, changed=changed or {}))

    def _say(self, member: Member, message: Any) -> None:
        message.child = member.name
        self._run.telemetry.emit(message)

    def _tell_progress(self) -> None:
        """Of the run: how far all have come, and how good they are."""
        step = min(self._steps.values())
        scores = [member.score for member in self.members if member.score is not None]
        if step <= self._told_step or not scores:
            return
        self._told_step = step
        self._run.telemetry.metric(
            step,
            {
                "population/best": max(scores),
                "population/mean": float(np.mean(scores)),
                "population/worst": min(scores),
                "population/generation": min(member.generation for member in self.members),
            },
        )

    def _best(self) -> Member:
        return max(self.members, key=_rank)

    def _save_if_complete(self) -> None:
        """After an exchange, or a request, when the last member has saved its state."""
        if not all(member.folder for member in self.members):
            return
        generation = min(member.generation for member in self.members)
        if generation > self._generation or (self._requested and not self._asked):
            self._generation = generation
            self._save()

    def _save(self) -> None:
        held = [member for member in self.members if member.folder]
        if not held:
            return
        save(self._run, self._config, self._card, min(member.step for member in held), self._write)
        self._saved_steps = [member.step for member in self.members]
        self._requested = bool(self._asked)

    def _write(self, folder: Path) -> None:
        kept = [msgspec.structs.replace(member) for member in self.members]
        for member in kept:
            if member.folder:
                shutil.copytree(member.folder, folder / MEMBERS / member.name)
                member.folder = f"{MEMBERS}/{member.name}"
        best = max(
            (member for member in kept if member.folder), key=lambda one: NO_SCORE if one.score is None else one.score
        )
        for name in (policy_file.FILE, policy_file.FOLDER):
            source = folder / best.folder / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        (folder / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(PopulationState(kept))))


def _begin(config: RayWorkerConfig) -> list[Member]:
    return [Member(f"trial-{index}", point) for index, point in enumerate(starting_points(config))]


def _read(folder: Path) -> list[Member]:
    members = msgspec.json.decode((folder / FILE).read_bytes(), type=PopulationState).members
    for member in members:
        member.folder = str((folder / member.folder).resolve()) if member.folder else ""
    return members


def _place(member: Member, folder: str) -> None:
    """A member's newest state lies there, whoever has written it."""
    state = msgspec.json.decode((Path(folder) / MEMBER_FILE).read_bytes(), type=MemberState)
    member.folder, member.generation = folder, state.generation
    member.step = read_state(Path(folder)).step


def _rank(member: Member) -> float:
    return NO_SCORE if member.score is None else member.score


def _summary(member: Member, step: int) -> dict[str, Any]:
    return {"steps": step, "episodes": member.episodes, "score": member.score}
