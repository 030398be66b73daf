"""The lane's settings, from the environment and from a worker's extras."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.fastlane import Settings


def test_the_workers_own_variables_come_before_the_general_ones() -> None:
    environ = {
        "MOSAIC_FASTLANE_DIR": "/dev/shm/mosaic-x",
        "MOSAIC_FASTLANE_INTERVAL_MS": "100",
        "MOSAIC_FASTLANE_MAX_DIM": "320",
        "CLEANRL_FASTLANE_INTERVAL_MS": "40.5",
        "CLEANRL_FASTLANE_VIDEO_MODE": "Grid",
        "CLEANRL_FASTLANE_GRID_LIMIT": "4",
    }
    settings = Settings.from_environment("CLEANRL", environ)
    assert settings == Settings(Path("/dev/shm/mosaic-x"), "grid", 0, 4, 40.5, 320)
    assert Settings.from_environment("CLEANRL", settings.to_environment("CLEANRL")) == settings


def test_without_a_directory_or_when_told_so_the_lane_is_off() -> None:
    assert not Settings.from_environment(environ={}).is_on
    assert Settings(Path("/x")).is_on
    assert not Settings(Path("/x"), "off").is_on


def test_extras_of_a_config_are_laid_over() -> None:
    settings = Settings(Path("/x"), interval_ms=5).with_extras(
        {"fastlane_video_mode": "grid", "fastlane_slot": 2, "fastlane_grid_limit": None, "cuda": True}
    )
    assert settings == Settings(Path("/x"), "grid", 2, interval_ms=5)


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("X_FASTLANE_INTERVAL_MS", "soon", "X_FASTLANE_INTERVAL_MS: got 'soon', allowed: a number"),
        ("X_FASTLANE_MAX_DIM", "-1", "fastlane_max_dim: got -1, allowed: 0 to 4096"),
        ("X_FASTLANE_VIDEO_MODE", "all", "fastlane_video_mode: got 'all', allowed: single, grid, off"),
        ("X_FASTLANE_INTERVAL_MS", "nan", "fastlane_interval_ms: got nan, allowed: 0 to 3600000"),
    ],
)
def test_bad_settings_are_named_in_one_line(variable: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        Settings.from_environment("X", {variable: text})
    assert str(caught.value) == complaint
