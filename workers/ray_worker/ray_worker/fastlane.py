"""Live frames: each process that plays publishes its environments, and renders only as often as somebody looks.

The environment's own `step` is hooked rather than RLlib's callbacks, which cost every step, looked at or not.
`RAY_WORKER_FASTLANE_...` or `MOSAIC_FASTLANE_...` in the environment say what to show and how often.
"""

from __future__ import annotations

from mosaic.fastlane import Settings, wrap_env
from ray_worker.environments import EnvironmentFactory
from ray_worker.games import Game

PREFIX = "RAY_WORKER"


def make_watched(factory: EnvironmentFactory) -> Game:
    """An environment on the lane; without a lane it is made without pictures, which some pay for."""
    settings = Settings.from_environment(PREFIX)
    game = factory.make(render=settings.is_on)
    if settings.is_on:
        wrap_env(game.env, settings)
    return game
