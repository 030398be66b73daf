"""Checkpoints: a folder each, with a card that says what it is and a hash of every file.

A checkpoint appears under its name only when it is whole: written to a temporary name, hashed, synced, renamed.
Reading a card or verifying a checkpoint executes nothing from it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mosaic.files import sync_folder

CARD_NAME = "card.json"
CARD_FORMAT = 1


class CheckpointFile(msgspec.Struct, frozen=True):
    sha256: str
    bytes: int


class CheckpointCard(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a checkpoint is, readable without opening it."""

    format: int = CARD_FORMAT
    worker: str
    algorithm: str
    environment: str
    step: int
    run_id: str = ""
    attempt: int = 1
    created: float = 0.0
    seed: int | None = None
    observation_space: str = ""
    action_space: str = ""
    agents: list[str] = []
    extra: dict[str, Any] = {}
    files: dict[str, CheckpointFile] = {}


class CheckpointError(Exception):
    """A checkpoint that cannot be used."""


def save(folder: Path, card: CheckpointCard, write: Callable[[Path], None]) -> Path:
    """Let `write` fill a new checkpoint below `folder` and put it in place as a whole."""
    name = f"step_{card.step:012d}" + (f"-attempt{card.attempt}" if card.attempt > 1 else "")
    final = folder / name
    temporary, aside = folder / f".{name}.tmp", folder / f".{name}.old"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        write(temporary)
        card.created = card.created or time.time()
        card.files = {
            str(path.relative_to(temporary)): _hash(path) for path in sorted(temporary.rglob("*")) if path.is_file()
        }
        with (temporary / CARD_NAME).open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(card)))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(temporary)
        if final.exists():
            # Of the same step: put aside first, so that a kill finds one of the two in place, but for an instant.
            shutil.rmtree(aside, ignore_errors=True)
            final.rename(aside)
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(folder)
    shutil.rmtree(aside, ignore_errors=True)
    return final


def read_card(checkpoint: Path) -> CheckpointCard:
    path = checkpoint / CARD_NAME
    try:
        card = msgspec.json.decode(path.read_bytes(), type=CheckpointCard)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {checkpoint}: no card ({error.strerror}): not a complete checkpoint"
        ) from None
    except msgspec.DecodeError as error:
        raise CheckpointError(f"checkpoint {checkpoint}: the card cannot be read: {error}") from None
    if card.format > CARD_FORMAT:
        raise CheckpointError(
            f"checkpoint {checkpoint}: card format {card.format} is newer than {CARD_FORMAT}, "
            "the newest known here: update MOSAIC"
        )
    return card


def verify(checkpoint: Path) -> CheckpointCard:
    """The card, after every file that it lists was found whole."""
    card = read_card(checkpoint)
    for name, expected in card.files.items():
        path = checkpoint / name
        if not path.resolve().is_relative_to(checkpoint.resolve()):
            raise CheckpointError(f"checkpoint {checkpoint}: the card lists {name!r}, which lies outside of it")
        if not path.is_file():
            raise CheckpointError(f"checkpoint {checkpoint}: {name} is missing")
        if _hash(path, sync=False) != expected:
            raise CheckpointError(f"checkpoint {checkpoint}: {name} is not what was saved (its hash differs)")
    return card


def latest(run_folder: Path, *, since_attempt: int = 1) -> Path | None:
    """The newest checkpoint of a run (of its attempts from `since_attempt` on) that is complete and unharmed."""
    cards = []
    for path in _cards_in(run_folder / "checkpoints"):
        try:
            card = read_card(path.parent)
        except CheckpointError:
            continue
        if card.attempt >= since_attempt:
            cards.append((card.created, path.parent))
    for _, checkpoint in sorted(cards, reverse=True):
        try:
            verify(checkpoint)
        except CheckpointError:
            continue
        return checkpoint
    return None


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints."""
    found = sorted(_cards_in(folder), key=lambda path: path.stat().st_mtime)
    for path in found[: max(0, len(found) - keep)]:
        shutil.rmtree(path.parent)


def _cards_in(folder: Path) -> list[Path]:
    """Those that are in place: the names of those that are being written begin with a dot."""
    return list(folder.glob(f"[!.]*/{CARD_NAME}"))


def _hash(path: Path, *, sync: bool = True) -> CheckpointFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if sync:
            os.fsync(file.fileno())
    return CheckpointFile(sha256=digest, bytes=path.stat().st_size)
