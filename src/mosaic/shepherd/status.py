"""The truth about a run, from its folder alone: the lock, launch.json, shepherd.json, exit.json and the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import ExitRecord, read_exit
from mosaic.shepherd.launch import LaunchError, read_launch
from mosaic.shepherd.lock import ShepherdInfo, is_locked, read_shepherd
from mosaic.store import RunReader, StoreError

State = Literal["QUEUED", "STARTING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "CANCELLED", "LOST"]
LIVE_STATES: frozenset[State] = frozenset({"STARTING", "RUNNING", "PAUSED"})
FINAL_STATES: frozenset[State] = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "LOST"})


@dataclass(frozen=True)
class RunStatus:
    state: State
    attempt: int  # the newest that the folder knows of; 0 if none
    alive: bool  # a shepherd holds the lock
    detail: str = ""
    exit: ExitRecord | None = None  # of this attempt
    shepherd: ShepherdInfo | None = None  # of this attempt


def read_status(folder: RunFolder) -> RunStatus:
    launched = folder.launch.exists()
    attempt = _launched_attempt(folder) if launched else 0
    # The lock before the records: who lets go of it has written exit.json before.
    alive = launched and is_locked(folder)
    shepherd = read_shepherd(folder)
    if shepherd is not None and shepherd.attempt != attempt:
        shepherd = None
    if alive:
        state, detail = _live_state(folder, attempt)
        return RunStatus(state, attempt, alive=True, detail=detail, shepherd=shepherd)
    record = read_exit(folder)
    # A later attempt than launch.json's was ended while it waited, before it was ever launched.
    if record is not None and record.attempt >= attempt:
        state = cast(State, record.outcome.upper())
        return RunStatus(state, record.attempt, alive=False, detail=record.message, exit=record, shepherd=shepherd)
    if shepherd is not None:
        return RunStatus("LOST", attempt, alive=False, detail="nobody saw how it ended", shepherd=shepherd)
    return RunStatus("QUEUED", attempt, alive=False)


def _launched_attempt(folder: RunFolder) -> int:
    try:
        return read_launch(folder).attempt
    except LaunchError:  # damaged; or of an attempt that was never begun, which has it written anew
        begun = read_shepherd(folder)
        return begun.attempt if begun else 0


def _live_state(folder: RunFolder, attempt: int) -> tuple[State, str]:
    try:
        with RunReader(folder.store) as reader:
            newest = reader.last_attempt()
    except StoreError:  # not there yet; or damaged, which the shepherd is about to find
        return "STARTING", ""
    if newest is None or newest.attempt != attempt:
        return "STARTING", ""
    state = cast(State, newest.state)
    # Between the end in the store and exit.json the shepherd still clears up.
    return (state, newest.detail) if state in LIVE_STATES else ("RUNNING", "ending")
