"""Live frames of a script's environments: the settings of a run, and putting an environment on the lane."""

from __future__ import annotations

from typing import Any

from cleanrl_worker.config import CleanRLExtras
from mosaic.fastlane import FastLaneTelemetryWrapper, Settings, frames_mode, wrap_env

__all__ = ["PREFIX", "FastLaneTelemetryWrapper", "frames_mode", "settings_variables", "watched"]

# CLEANRL_FASTLANE_INTERVAL_MS, CLEANRL_FASTLANE_MAX_DIM and so on.
PREFIX = "CLEANRL"


def settings_variables(extras: CleanRLExtras) -> dict[str, str]:
    """What the script's process needs to know, from this process's environment and the config."""
    given = {
        "fastlane_video_mode": extras.fastlane_video_mode,
        "fastlane_slot": extras.fastlane_slot,
        "fastlane_grid_limit": extras.fastlane_grid_limit,
    }
    return Settings.from_environment(PREFIX).with_extras(given).to_environment(PREFIX)


def watched(env: Any, settings: Settings, slot: int) -> Any:
    """The same environment, on the lane if the settings want it."""
    return wrap_env(env, settings, slot=slot)
