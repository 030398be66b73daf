"""From the worker's stdout to messages: bytes to lines, lines to messages, and a count of everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from mosaic.worker.messages import KINDS, AnyMessage

LINE_LIMIT = 1 << 20
KEPT_OF_A_BAD_LINE = 4096


class _Tag(msgspec.Struct):
    type: str


class TelemetryReader:
    """Takes the stream in chunks no longer than a line may be; the messages do not depend on where they are cut.

    A line holds messages, usually one (two prints that ran into each other hold two). What is no message is counted by
    class in `counts` and its beginning goes to `keep`. Memory stays below twice the line limit.
    """

    def __init__(self, keep: Callable[[bytes], None], *, line_limit: int = LINE_LIMIT) -> None:
        self.counts: Counter[str] = Counter()
        self._limit = line_limit
        self._keep = keep
        self._partial = bytearray()  # the beginning of a line whose end was not read yet
        self._skipping = False  # inside a line that was given up as oversized
        self._messages: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)
        self._tag = msgspec.json.Decoder(_Tag)

    def feed(self, chunk: bytes) -> list[AnyMessage]:
        if self._skipping:
            end = chunk.find(b"\n")
            if end < 0:
                return []
            self._skipping = False
            chunk = chunk[end + 1 :]
        first_end = chunk.find(b"\n")
        if first_end < 0:
            self._partial += chunk
            if len(self._partial) > self._limit:
                self._give_up_line()
                self._skipping = True
            return []
        if len(self._partial) + first_end > self._limit:
            self._partial += chunk[:KEPT_OF_A_BAD_LINE]
            self._give_up_line()
            chunk = chunk[first_end + 1 :]
        last_end = chunk.rfind(b"\n") + 1
        block = bytes(self._partial) + chunk[:last_end]
        self._partial = bytearray(chunk[last_end:])
        return self._decode(block)

    def finish(self) -> list[AnyMessage]:
        """The stream has ended: what was left without a line's end counts if it is whole."""
        block = bytes(self._partial)
        self._partial.clear()
        if not block.strip():
            return []
        try:
            return self._messages.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.counts["truncated"] += 1
            self._keep(block[:KEPT_OF_A_BAD_LINE] + b"\n")
            return []

    def _decode(self, block: bytes) -> list[AnyMessage]:
        try:
            messages = self._messages.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._decode_each(block)
        # As many messages as lines: otherwise one may have been spread over lines, which must not depend on the chunks.
        return messages if len(messages) == block.count(b"\n") else self._decode_each(block)

    def _decode_each(self, block: bytes) -> list[AnyMessage]:
        messages: list[AnyMessage] = []
        bad: list[bytes] = []
        for line in block.split(b"\n"):
            try:
                messages += self._messages.decode_lines(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.counts[self._classify(line, error)] += 1
                bad.append(line[:KEPT_OF_A_BAD_LINE])
        if bad:
            self._keep(b"\n".join(bad) + b"\n")
        return messages

    def _classify(self, line: bytes, error: Exception) -> str:
        if isinstance(error, RecursionError):
            return "too_deep"
        if isinstance(error, UnicodeDecodeError):
            return "invalid_utf8"
        if b"\0" in line:
            return "nul_bytes"
        if not isinstance(error, msgspec.ValidationError):
            return "malformed"
        try:
            kind = self._tag.decode(line).type
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "malformed"
        return "invalid_message" if kind in KINDS else "unknown_type"

    def _give_up_line(self) -> None:
        self.counts["oversized"] += 1
        self._keep(bytes(self._partial[: min(KEPT_OF_A_BAD_LINE, self._limit)]) + b"\n")
        self._partial.clear()
