"""Short texts: times, bars, curves, short ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mosaic.cli import format
from mosaic.cli.local_runs import short_ids

ULIDS = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26)


def test_durations_and_ages() -> None:
    assert [format.duration(value) for value in (0.04, 9.96, 59, 61, 3600, 3725, 90_000)] == [
        "0.0s", "10.0s", "59s", "1m 1s", "1h", "1h 2m", "1d 1h",
    ]  # fmt: skip
    assert [format.age(0, now) for now in (3, 185, 7300, 200_000)] == ["3s", "3m", "2h", "2d"]


def test_numbers() -> None:
    assert [format.number(value) for value in (0.0, 1.0, 0.123456, 12345.678, -3e-7, "nan", None, 2_000_000.0)] == [
        "0", "1", "0.1235", "12,346", "-3e-07", "nan", "-", "2,000,000",
    ]  # fmt: skip
    assert [format.size(value) for value in (12, 2048, 5 * 1024**2)] == ["12 B", "2.0 KiB", "5.0 MiB"]


def test_a_run_shows_100_percent_only_when_it_is_done() -> None:
    assert format.percent(0.99999) == "99%"
    assert format.percent(1.0) == "100%"


@given(st.floats(0, 1), st.integers(1, 60), st.booleans())
def test_bars_have_their_width(fraction: float, width: int, ascii_only: bool) -> None:
    bar = format.bar(fraction, width, ascii_only=ascii_only)
    assert len(bar) == width
    assert bar.isascii() == ascii_only


@given(st.lists(st.floats(-1e9, 1e9) | st.just(float("nan"))), st.integers(0, 40), st.booleans())
def test_sparklines_never_outgrow_their_width(values: list[float], width: int, ascii_only: bool) -> None:
    line = format.sparkline(values, width, ascii_only=ascii_only)
    assert len(line) <= width
    if line:
        assert line.isascii() == ascii_only


def test_a_sparkline_rises_where_the_values_do() -> None:
    assert format.sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert format.sparkline([3, 3, 3], 8) == "▄▄▄"


@given(st.lists(ULIDS, min_size=1, max_size=30, unique=True))
def test_short_ids_are_beginnings_that_no_two_runs_share(ids: list[str]) -> None:
    shorts = short_ids(ids)
    assert len(set(shorts.values())) == len(ids)
    assert all(run_id.startswith(short) and len(short) >= 8 for run_id, short in shorts.items())
