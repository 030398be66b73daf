"""How a process's lane behaves: read once from the environment that the worker was started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from mosaic.fastlane.streams import DIRECTORY_VARIABLE

Mode = Literal["single", "grid", "off"]
MODES: tuple[Mode, ...] = ("single", "grid", "off")
GENERAL_PREFIX = "MOSAIC"


@dataclass(frozen=True)
class Settings:
    """`X_FASTLANE_...` in the environment; the names in a worker's `extras` are the same in lower case, `fastlane_...`.

    interval_ms  shortest time between two frames of a stream                       X_FASTLANE_INTERVAL_MS
    max_dim      longest side of a published frame in pixels, 0 for no limit        X_FASTLANE_MAX_DIM
    mode         single: one environment; grid: several and all of them tiled; off  X_FASTLANE_VIDEO_MODE
    slot         which environment `single` shows, counted from 0                   X_FASTLANE_SLOT
    grid_limit   how many environments take part in `grid`                          X_FASTLANE_GRID_LIMIT
    budget       largest share of the time that rendering for viewers may take      X_FASTLANE_BUDGET
    """

    directory: Path | None
    mode: Mode = "single"
    slot: int = 0
    grid_limit: int = 9
    interval_ms: float = 16.0
    max_dim: int = 1024
    budget: float = 0.02

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"fastlane_video_mode: got {self.mode!r}, allowed: {', '.join(MODES)}")
        for name, low, high in (
            ("slot", 0, 10_000),
            ("grid_limit", 1, 64),
            ("interval_ms", 0, 3_600_000),
            ("max_dim", 0, 4096),
            ("budget", 0.001, 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"fastlane_{name}: got {value}, allowed: {low} to {high}")

    @property
    def is_on(self) -> bool:
        return self.mode != "off" and self.directory is not None

    @classmethod
    def from_environment(cls, prefix: str = GENERAL_PREFIX, environ: Mapping[str, str] | None = None) -> Settings:
        """`PREFIX_FASTLANE_...` where set, else `MOSAIC_FASTLANE_...`, else the default. No directory: off."""
        environ = os.environ if environ is None else environ
        given: dict[str, Any] = {}
        for field, kind in _FIELDS.items():
            for variable in (_variable(prefix, field), _variable(GENERAL_PREFIX, field)):
                if text := environ.get(variable, ""):
                    given[field] = _parse(variable, text, kind)
                    break
        directory = environ.get(DIRECTORY_VARIABLE, "")
        return cls(Path(directory) if directory else None, **given)

    def to_environment(self, prefix: str = GENERAL_PREFIX) -> dict[str, str]:
        """The variables that give a child process these settings."""
        variables = {_variable(prefix, field): str(getattr(self, field)) for field in _FIELDS}
        if self.directory is not None:
            variables[DIRECTORY_VARIABLE] = str(self.directory)
        return variables

    def with_extras(self, extras: Mapping[str, Any]) -> Settings:
        """These settings with a worker config's `fastlane_...` entries laid over them."""
        values = {field: getattr(self, field) for field in _FIELDS}
        for field, kind in _FIELDS.items():
            key = "fastlane_video_mode" if field == "mode" else f"fastlane_{field}"
            if extras.get(key) is not None:
                values[field] = _parse(key, str(extras[key]), kind)
        return Settings(self.directory, **values)


_FIELDS: dict[str, type] = {
    "mode": str,
    "slot": int,
    "grid_limit": int,
    "interval_ms": float,
    "max_dim": int,
    "budget": float,
}


def _variable(prefix: str, field: str) -> str:
    return f"{prefix}_FASTLANE_" + ("VIDEO_MODE" if field == "mode" else field.upper())


def _parse(name: str, text: str, kind: type) -> Any:
    try:
        return cast(Any, kind)(text.strip().lower() if kind is str else text)
    except ValueError:
        raise ValueError(f"{name}: got {text!r}, allowed: a number") from None
