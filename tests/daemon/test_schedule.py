"""The plan: order, room, bounded passing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.daemon.schedule import Need, Plan, Waiting, plan

LIMIT = 4
needs = st.builds(
    Need, cpus=st.integers(1, 4), memory_mb=st.sampled_from([0, 0, 100, 400]), gpus=st.sampled_from([0, 0, 0, 1, 2])
)


@st.composite
def queues(draw: st.DrawFn) -> list[Waiting]:
    count = draw(st.integers(0, 12))
    return [
        Waiting(f"r{place}", draw(st.integers(-1, 1)), place, draw(needs), draw(st.integers(0, LIMIT)))
        for place in range(count)
    ]


def sum_of(runs: list[Waiting]) -> Need:
    total = Need()
    for run in runs:
        total = total.plus(run.need)
    return total


@given(queues(), needs)
def test_what_starts_fits_and_everybody_starts_or_waits(queue: list[Waiting], free: Need) -> None:
    by_id = {run.run_id: run for run in queue}
    result = plan(queue, free, pass_limit=LIMIT)
    assert sorted([*result.start, *result.waiting]) == sorted(by_id)
    assert sum_of([by_id[run_id] for run_id in result.start]).fits(free)


@given(queues(), needs)
def test_the_first_starts_if_there_is_room_for_it(queue: list[Waiting], free: Need) -> None:
    for first in sorted(queue, key=lambda run: (-run.priority, run.place))[:1]:
        assert (first.run_id in plan(queue, free, pass_limit=LIMIT).start) == first.need.fits(free)


@given(queues(), needs)
def test_a_run_passes_only_what_does_not_fit(queue: list[Waiting], free: Need) -> None:
    by_id = {run.run_id: run for run in queue}
    result = plan(queue, free, pass_limit=LIMIT)
    used = Need()
    for run in sorted(queue, key=lambda run: (-run.priority, run.place)):
        if run.run_id in result.start:
            used = used.plus(run.need)
        elif run.need.fits(free.minus(used)):
            # It would fit and waits all the same: only for the sake of one ahead of it that was passed enough.
            ahead = [other for other in result.waiting if _goes_before(by_id[other], run)]
            assert any(result.waiting[other] >= LIMIT for other in ahead)


def _goes_before(one: Waiting, other: Waiting) -> bool:
    return (-one.priority, one.place) < (-other.priority, other.place)


@settings(max_examples=60)
@given(st.integers(2, 4), st.integers(0, 2**32))
def test_a_big_run_starts_however_many_small_ones_keep_coming(cpus: int, seed: int) -> None:
    """It wants the entire machine; single-CPU runs come for ever and end one by one."""
    total = Need(cpus=cpus)
    big = Waiting("big", 0, 0, Need(cpus=cpus))
    running = [f"old{number}" for number in range(cpus - 1)]
    place, passes = 1, 0
    for started in range(200):
        queue = [Waiting("big", 0, 0, big.need, passes)]
        queue += [Waiting(f"small{place + offset}", 0, place + offset, Need(cpus=1)) for offset in range(3)]
        place += 3
        result: Plan = plan(queue, total.minus(Need(cpus=len(running))), pass_limit=LIMIT)
        if "big" in result.start:
            return
        passes = result.waiting["big"]
        assert passes <= LIMIT
        running += result.start
        # Somebody ends.
        running.pop((seed + started) % len(running))
    raise AssertionError("the big run starved")


def test_a_run_for_the_gpu_does_not_stop_the_cpus() -> None:
    """Passed often enough, a run that waits for a GPU keeps its one CPU slot free, and no more than that."""
    queue = [Waiting("gpu", 0, 0, Need(cpus=1, gpus=1), LIMIT)]
    queue += [Waiting(f"cpu{number}", 0, number, Need(cpus=1)) for number in range(1, 9)]
    assert plan(queue, Need(cpus=4, gpus=0), pass_limit=LIMIT).start == ["cpu1", "cpu2", "cpu3"]


def test_priority_goes_before_first_come() -> None:
    queue = [Waiting("early", 0, 1, Need(cpus=1)), Waiting("late", 5, 2, Need(cpus=1))]
    assert plan(queue, Need(cpus=1)).start == ["late"]
