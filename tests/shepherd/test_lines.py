"""Bytes to messages: whatever arrives, in whatever pieces."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mosaic.shepherd.telemetry import KEPT_OF_A_BAD_LINE, LINE_LIMIT, TelemetryReader
from mosaic.worker.messages import Heartbeat, Log, Step

GOOD = [
    b'{"type":"step","step":1}',
    b'{"type":"heartbeat"}{"type":"heartbeat"}',
    b' {"type":"log","message":"a \\u00e9 \\n b"} \r',
    b"",
    b"   ",
]
BAD = {
    b'{"type":"step","st': "malformed",
    b"free text": "malformed",
    b"[]": "malformed",
    b"3": "malformed",
    b'{"step":1}': "malformed",
    b'{"type":"dance","step":1}': "unknown_type",
    b'{"type":"step","step":"x"}': "invalid_message",
    b'{"type":"step","step":1,"unknown":2}': "invalid_message",
    b'{"type":"log","message":"\xff"}': "invalid_utf8",
    b'{"type":"log","message":"a\x00b"}': "nul_bytes",
    b"\x00\x00": "nul_bytes",
    b'{"type":"log",': "malformed",
    b'"message":"one message over two lines"}': "malformed",
    b'{"type":"step","step":1,"extra":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}": "too_deep",
    b'{"type":"step","step":1,"reward":1e999}': "invalid_message",
    b'{"type":"log","message":"\\ud800"}': "malformed",
}


def read(stream: bytes, cuts: list[int], limit: int = LINE_LIMIT):
    kept: list[bytes] = []
    reader = TelemetryReader(kept.append, line_limit=limit)
    messages = []
    ends = sorted({cut % (len(stream) + 1) for cut in cuts} | {len(stream)})
    start = 0
    for end in ends:
        while start < end:
            step = min(end, start + limit)
            messages += reader.feed(stream[start:step])
            start = step
    messages += reader.finish()
    return messages, dict(reader.counts), b"".join(kept)


lines = st.lists(st.sampled_from([*GOOD, *BAD]) | st.binary(max_size=40), max_size=30)
cuts = st.lists(st.integers(0, 10_000), max_size=12)


@given(lines=lines, cuts=cuts, limit=st.sampled_from([64, 300, LINE_LIMIT]), closed=st.booleans())
def test_messages_do_not_depend_on_the_chunks(lines, cuts, limit, closed):
    stream = b"\n".join(lines) + (b"\n" if closed else b"")
    assert read(stream, cuts, limit) == read(stream, list(range(0, len(stream), 7)), limit)


@given(lines=st.lists(st.sampled_from([*GOOD, *BAD]), max_size=30), cuts=cuts)
def test_every_line_is_a_message_or_counted(lines, cuts):
    messages, counts, kept = read(b"".join(line + b"\n" for line in lines), cuts)
    expected: dict[str, int] = {}
    for line in lines:
        if line in BAD:
            expected[BAD[line]] = expected.get(BAD[line], 0) + 1
            assert line[:KEPT_OF_A_BAD_LINE] in kept
    assert counts == expected
    assert len(messages) == sum(line.count(b"type") for line in lines if line in GOOD)


@given(st.binary(max_size=2000))
def test_no_bytes_can_break_it(stream):
    read(stream, [len(stream) // 2])


def test_two_prints_that_ran_into_each_other():
    messages, counts, _ = read(b'{"type":"heartbeat"}{"type":"step","step":2}\n\n', [])
    assert messages == [Heartbeat(), Step(step=2)]
    assert counts == {}


def test_an_oversized_line_costs_its_beginning_only():
    long = b'{"type":"log","message":"' + b"x" * 50_000_000 + b'"}'
    messages, counts, kept = read(b'{"type":"heartbeat"}\n' + long + b'\n{"type":"step","step":2}\n', [])
    assert messages == [Heartbeat(), Step(step=2)]
    assert counts == {"oversized": 1}
    assert kept == long[:KEPT_OF_A_BAD_LINE] + b"\n"


@given(extra=st.integers(-2, 2), cut=st.integers(0, 200))
def test_the_limit_is_exact(extra, cut):
    line = json.dumps({"type": "log", "message": ""}).encode()
    line = line.replace(b'""', b'"' + b"x" * (100 + extra - len(line)) + b'"')
    messages, counts, _ = read(line + b"\n", [cut], limit=100)
    assert (len(messages), counts) == ((0, {"oversized": 1}) if extra > 0 else (1, {}))


def test_the_last_line_without_an_end():
    assert read(b'{"type":"log","message":"bye"}', []) == ([Log(message="bye")], {}, b"")
    assert read(b'{"type":"log","mess', []) == ([], {"truncated": 1}, b'{"type":"log","mess\n')
