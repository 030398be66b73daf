"""Run ids: ULIDs, which sort by the time they were made; never two alike, never one smaller than the one before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
_LARGEST = (1 << 128) - 1


def is_ulid(text: str) -> bool:
    return len(text) == LENGTH and text[0] <= "7" and all(letter in ALPHABET for letter in text)


class UlidMaker:
    """Makes ids that ascend, also within a millisecond and when the clock is set back."""

    def __init__(self, after: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._last = _decode(after) if after else 0
        self._clock = clock

    def __call__(self) -> str:
        fresh = int(self._clock() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
        self._last = min(fresh if fresh > self._last else self._last + 1, _LARGEST)
        return _encode(self._last)


def _encode(number: int) -> str:
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def _decode(text: str) -> int:
    number = 0
    for letter in text:
        number = number << 5 | ALPHABET.index(letter)
    return number
