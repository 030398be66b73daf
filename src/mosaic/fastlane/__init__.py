"""FastLane: live frames at the cost of one copy.

A worker publishes rendered frames into a ring in shared memory; any number of readers take the latest. Lossy by design.
Needs NumPy and nothing else. `docs/fastlane.md` tells how to use it.
"""

from mosaic.fastlane.lane import Lane, Metrics
from mosaic.fastlane.layout import FastLaneError, StreamTaken
from mosaic.fastlane.reader import FastLaneReader, Frame, FrameInfo, FrameView
from mosaic.fastlane.settings import Settings
from mosaic.fastlane.streams import (
    DIRECTORY_VARIABLE,
    GRID,
    Stream,
    agent_stream,
    default_directory,
    discover,
    environment_stream,
    stream_path,
)
from mosaic.fastlane.wrappers import FastLaneTelemetryWrapper, frames_mode, wrap_env, wrap_vector
from mosaic.fastlane.writer import FastLaneWriter

__all__ = [
    "DIRECTORY_VARIABLE",
    "GRID",
    "FastLaneError",
    "FastLaneReader",
    "FastLaneTelemetryWrapper",
    "FastLaneWriter",
    "Frame",
    "FrameInfo",
    "FrameView",
    "Lane",
    "Metrics",
    "Settings",
    "Stream",
    "StreamTaken",
    "agent_stream",
    "default_directory",
    "discover",
    "environment_stream",
    "frames_mode",
    "stream_path",
    "wrap_env",
    "wrap_vector",
]
