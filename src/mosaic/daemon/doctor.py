"""Finds and explains what is wrong in a home folder, and mends it on request."""

from __future__ import annotations

import msgspec

from mosaic.daemon.trainer import Trainer


class Finding(msgspec.Struct, kw_only=True):
    kind: str
    subject: str
    message: str
    mend: str | None = None  # what mending does; None: a person has to
    mended: bool = False


class Doctor:
    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    async def examine(self) -> list[Finding]:
        return []

    async def mend(self) -> list[Finding]:
        return []
