"""The verdict on every combination of what can have been seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mosaic.shepherd.exit_record import one_line
from mosaic.shepherd.verdict import Seen, judge

statuses = st.none() | st.integers(0, 255).map(lambda code: code << 8) | st.integers(1, 64)
seen = st.builds(
    Seen,
    status=statuses,
    cause=st.sampled_from([None, "cancel", "out_of_memory", "disk_full", "told_to_end"]),
    completed=st.sampled_from([None, "finished", "stopped"]),
    failure=st.none() | st.text(),
    last_words=st.text(),
    kernel_killed=st.booleans(),
    machine_oom=st.booleans(),
)


@given(seen)
def test_success_is_never_guessed(seen):
    verdict = judge(seen)
    if verdict.outcome == "succeeded":
        finished = seen.completed == "finished" and seen.cause in ("cancel", "told_to_end")
        assert finished or (seen.status == 0 and seen.failure is None and seen.cause is None)
        assert not seen.kernel_killed


@given(seen)
def test_out_of_memory_and_cancelled_are_what_they_say(seen):
    verdict = judge(seen)
    assert (verdict.reason == "out_of_memory") == (seen.kernel_killed or seen.cause == "out_of_memory")
    if verdict.outcome == "cancelled":
        assert seen.cause == "cancel"
    if seen.status is None and seen.cause is None and not seen.kernel_killed:
        assert (verdict.outcome, verdict.reason) == ("lost", "unknown")


@given(seen)
def test_code_or_signal_never_both(seen):
    verdict = judge(seen)
    assert verdict.exit_code is None or verdict.signal is None
    if seen.status is not None:
        assert (verdict.exit_code is None) != (verdict.signal is None)


@given(st.text(max_size=2000))
def test_messages_are_one_printable_line(text):
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= 500


def test_a_machine_out_of_memory_is_a_hint_not_a_verdict():
    verdict = judge(Seen(status=9, machine_oom=True, last_words="step 5"))
    assert verdict.reason == "killed"
    assert verdict.message == (
        "killed by SIGKILL, while the kernel's out-of-memory killer was at work on this machine; it last said: step 5"
    )
