"""Plots out of rollups agree with what the raw points say, whatever the steps, the attempts and the range."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.store import PlotPoint, RunReader, RunWriter
from mosaic.worker.messages import Metric, from_number, to_number


@dataclass
class Attempt:
    resumed_step: int | None
    points: list[tuple[int, float]]


values = st.one_of(
    st.floats(-1e6, 1e6), st.just(math.nan), st.just(math.inf), st.just(-math.inf), st.floats(-1.7e308, 1.7e308)
)
wild_points = st.lists(st.tuples(st.integers(-50, 200), values), max_size=150)


@st.composite
def rising_points(draw: st.DrawFn) -> list[tuple[int, float]]:
    """Steps as they mostly are: never falling, at different paces, sometimes repeated."""
    paces = draw(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 7)), max_size=4))
    step, points = draw(st.integers(0, 300)), []
    for length, pace in paces:
        for _ in range(length):
            step += pace
            points.append((step, float((step * 7919) % 1000)))
    return points


attempts = st.lists(
    st.builds(Attempt, st.one_of(st.none(), st.integers(-10, 400)), st.one_of(wild_points, rising_points())),
    min_size=1,
    max_size=4,
)
bound = st.one_of(st.none(), st.integers(-60, 500))


def write(path: Path, told: list[Attempt]) -> None:
    writer = RunWriter(path)
    for number, attempt in enumerate(told, start=1):
        writer.begin_attempt(number, started=1.0, resumed_step=attempt.resumed_step if number > 1 else None)
        writer.append(
            [Metric(step=step, values={"loss": to_number(value), "other": 1.0}) for step, value in attempt.points],
            1.0,
        )
        writer.commit()
    writer.close()


def visible(told: list[Attempt], start: int | None, stop: int | None) -> list[tuple[int, float]]:
    """Straight from the rule: a point is hidden if a later attempt resumed from before it, or from nothing."""
    return [
        (step, value)
        for number, attempt in enumerate(told)
        for step, value in attempt.points
        if all(later.resumed_step is not None and step <= later.resumed_step for later in told[number + 1 :])
        and (start is None or step >= start)
        and (stop is None or step <= stop)
    ]


def as_float(number: float | str | None) -> float:
    return math.nan if number is None else from_number(number)  # type: ignore[arg-type]


def check_against(points: list[tuple[int, float]], plot: list[PlotPoint], max_points: int) -> None:
    numbers = [value for _, value in points if not math.isnan(value)]
    assert len(plot) <= max_points
    assert [point.step_min for point in plot] == sorted(point.step_min for point in plot)
    assert all(point.step_min <= point.step_max for point in plot)
    assert sum(point.count for point in plot) == len(numbers)
    assert sum(point.nan for point in plot) == len(points) - len(numbers)
    if len(points) <= max_points:
        assert [(p.step_min, p.step_max, p.count + p.nan) for p in plot] == [
            (s, s, 1) for s in sorted(s for s, _ in points)
        ]
    for point in plot:
        if point.count == 0:
            assert (point.min, point.max, point.mean) == (None, None, None)
    filled = [point for point in plot if point.count]
    if numbers:
        assert min(as_float(point.min) for point in filled) == min(numbers)
        assert max(as_float(point.max) for point in filled) == max(numbers)
        check_mean(numbers, filled)
    if points:
        assert plot[0].step_min == min(step for step, _ in points)
        assert max(point.step_max for point in plot) == max(step for step, _ in points)


def check_mean(numbers: list[float], plot: list[PlotPoint]) -> None:
    expected = sum(number / len(numbers) for number in numbers)
    total = sum(as_float(point.mean) * (point.count / len(numbers)) for point in plot)
    if math.isfinite(expected):
        largest = max(abs(number) for number in numbers)
        assert total == pytest.approx(expected, abs=largest * 1e-13 + 1e-300, rel=0)
    else:
        assert total == expected or (math.isnan(total) and math.isnan(expected))


@settings(max_examples=150, deadline=None)
@given(attempts, st.integers(1, 60), bound, bound)
def test_agrees_with_raw_points(
    new_store: Callable[[], Path], told: list[Attempt], max_points: int, start: int | None, stop: int | None
) -> None:
    path = new_store()
    write(path, told)
    with RunReader(path) as reader:
        check_against(
            visible(told, start, stop), reader.plot("loss", max_points=max_points, start=start, stop=stop), max_points
        )
        everything = visible(told, None, None)
        found = [info for info in reader.series() if info.name == "loss"]
        assert [(info.points, info.first_step, info.last_step) for info in found] == (
            [(len(everything), min(s for s, _ in everything), max(s for s, _ in everything))] if everything else []
        )


@settings(max_examples=60, deadline=None)
@given(rising_points(), st.integers(2, 40))
def test_buckets_of_a_rising_curve_say_what_is_in_them(
    new_store: Callable[[], Path], points: list[tuple[int, float]], max_points: int
) -> None:
    path = new_store()
    write(path, [Attempt(None, points)])
    with RunReader(path) as reader:
        plot = reader.plot("loss", max_points=max_points)
    position = 0
    for point in plot:
        said = points[position : position + point.count]
        position += point.count
        assert (point.step_min, point.step_max) == (said[0][0], said[-1][0])
        assert (point.min, point.max) == (min(v for _, v in said), max(v for _, v in said))
        assert point.mean == pytest.approx(sum(v for _, v in said) / len(said), rel=1e-12)
        assert point.last == said[-1][1]
    assert position == len(points)


def test_detail_follows_the_zoom(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path, [Attempt(None, [(step, float(step % 1000)) for step in range(50_000)])])
    with RunReader(path) as reader:
        whole = reader.plot("loss", max_points=500)
        assert 250 <= len(whole) <= 500
        assert sum(point.count for point in whole) == 50_000
        part = reader.plot("loss", max_points=500, start=20_000, stop=20_399)
        assert [(point.step_min, point.count) for point in part] == [(step, 1) for step in range(20_000, 20_400)]


def test_sparse_stretches_keep_their_shape(tmp_path: Path) -> None:
    """20,000 points in the first thousand steps must not leave the next million steps with a handful of points."""
    dense = [(step // 20, 0.0) for step in range(20_000)]
    sparse = [(1000 + 5000 * index, float(index)) for index in range(200)]
    path = tmp_path / "run.sqlite"
    write(path, [Attempt(None, dense + sparse)])
    with RunReader(path) as reader:
        plot = reader.plot("loss", max_points=200)
    assert len(plot) <= 200
    assert len([point for point in plot if point.step_min > 1000]) >= 80


def test_unknown_metric_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path, [Attempt(None, [(1, 1.0)])])
    with RunReader(path) as reader:
        assert reader.plot("nothing") == []
        with pytest.raises(ValueError, match="max_points: got 0, allowed: 1 or more"):
            reader.plot("loss", max_points=0)
