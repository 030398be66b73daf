"""Live frames of a script's environments: the settings of a run, and putting an environment on the lane."""

from __future__ import annotations

from typing import Any

from cleanrl_worker.config import CleanRLExtras
from mosaic.fastlane import FastLaneTelemetryWrapper, Settings, frames_mode, wrap_env

__all__ = ["PREFIX", "FastLaneTelemetryWrapper", "frames_mode", "run_settings", "settings_variables", "watched"]

# CLEANRL_FASTLANE_INTERVAL_MS, CLEANRL_FASTLANE_MAX_DIM and so on.
PREFIX = "CLEANRL"


def run_settings(extras: CleanRLExtras) -> Settings:
    """What this process's environment says, and the config over it."""
    given = {
        "fastlane_video_mode": extras.fastlane_video_mode,
        "fastlane_slot": extras.fastlane_slot,
        "fastlane_grid_limit": extras.fastlane_grid_limit,
    }
    return Settings.from_environment(PREFIX).with_extras(given)


def settings_variables(extras: CleanRLExtras) -> dict[str, str]:
    """The same for the script's process."""
    return run_settings(extras).to_environment(PREFIX)


def watched(env: Any, settings: Settings, slot: int) -> Any:
    """The same environment, on the lane if the settings want it."""
    return wrap_env(env, settings, slot=slot)
