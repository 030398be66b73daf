"""Numbers, times, bars and curves as short text. Nothing here knows about terminals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.-=+*#@"


def duration(seconds: float) -> str:
    """Two units at most: `4.2 s`, `3m 20s`, `5h 12m`, `3d 4h`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f}s"
    whole = int(seconds)
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit}{name}" + (f" {rest}{smaller_name}" if rest else "")
    return f"{whole}s"


def age(timestamp: float, now: float | None = None) -> str:
    """How long ago, in one unit: `5s`, `3m`, `2h`, `4d`."""
    seconds = max(0.0, (time.time() if now is None else now) - timestamp)
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{int(seconds // unit)}{name}"
    return f"{int(seconds)}s"


def moment(timestamp: float) -> str:
    """Local wall-clock time, to the second."""
    return datetime.fromtimestamp(timestamp).strftime("%Y-%m-%d %H:%M:%S")


def clock(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).strftime("%H:%M:%S")


def number(value: float | str | None) -> str:
    """Four significant digits, without an exponent where none is needed; JSON's "nan" and "inf" pass as they are."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e9):
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def size(bytes_: int) -> str:
    value = float(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def percent(fraction: float) -> str:
    """100% only when it is done."""
    return f"{min(int(fraction * 100), 99 if fraction < 1 else 100)}%"


def bar(fraction: float, width: int, *, ascii_only: bool = False) -> str:
    full, empty = ("#", ".") if ascii_only else ("━", "╌")
    done = min(width, max(0, int(fraction * width + 1e-9)))
    return full * done + empty * (width - done)


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """A curve as one line of text, at most `width` characters: each is the mean of its share of the values."""
    finite = [value for value in values if value - value == 0.0]
    if not finite or width < 1:
        return ""
    cells = min(width, len(finite))
    means = []
    for index in range(cells):
        share = finite[index * len(finite) // cells : (index + 1) * len(finite) // cells]
        means.append(sum(share) / len(share))
    low, high = min(means), max(means)
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    if high == low:
        return blocks[len(blocks) // 2 - 1] * cells
    return "".join(blocks[round((mean - low) / (high - low) * (len(blocks) - 1))] for mean in means)
