"""Which environments there are, and making them: `EnvironmentFactory`. Needs no Ray."""

from __future__ import annotations

import importlib
import importlib.util
import os
from dataclasses import dataclass
from typing import Any

import gymnasium
import gymnasium.spaces as spaces

from mosaic.worker import ConfigError, refuse
from mosaic.worker.validation import closest
from ray_worker.config import EnvironmentConfig, EnvironmentFamily, PettingZooAPIType
from ray_worker.games import Game, GymnasiumGame, ParallelGame, TurnGame
from ray_worker.observations import Codec, codec_for

# Those of PettingZoo's classic games that need nothing more than is installed here.
CLASSIC = ("chess_v6", "connect_four_v3", "go_v5", "rps_v2", "tictactoe_v3")
FAMILIES: dict[EnvironmentFamily, tuple[str, tuple[str, ...]]] = {
    EnvironmentFamily.SISL: ("pettingzoo.sisl", ("multiwalker_v9", "pursuit_v4", "waterworld_v4")),
    EnvironmentFamily.CLASSIC: ("pettingzoo.classic", CLASSIC),
    EnvironmentFamily.BUTTERFLY: (
        "pettingzoo.butterfly",
        ("cooperative_pong_v5", "knights_archers_zombies_v10", "pistonball_v6"),
    ),
    EnvironmentFamily.MPE: (
        "mpe2",
        (
            "collect_treasure_v1",
            "simple_adversary_v3",
            "simple_crypto_v3",
            "simple_formation_v1",
            "simple_line_v1",
            "simple_push_v3",
            "simple_reference_v3",
            "simple_speaker_listener_v4",
            "simple_spread_v3",
            "simple_tag_v3",
            "simple_v3",
            "simple_world_comm_v3",
        ),
    ),
}


@dataclass(frozen=True)
class EnvironmentFacts:
    """What is known of an environment once it has been made."""

    agents: tuple[str, ...]
    observation_spaces: dict[str, spaces.Space[Any]]
    action_spaces: dict[str, spaces.Space[Any]]
    codecs: dict[str, Codec]
    in_turn: bool = False

    @property
    def is_single(self) -> bool:
        return len(self.agents) == 1


class EnvironmentFactory:
    """Makes the environment that a config names, any number of times."""

    def __init__(self, config: EnvironmentConfig) -> None:
        self.config = config

    def make(self, *, render: bool = False) -> Game:
        """A new environment, or a ConfigError that says which field is wrong."""
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        arguments = {**({"render_mode": "rgb_array"} if render else {}), **self.config.env_kwargs}
        if self.config.family is EnvironmentFamily.GYMNASIUM:
            return GymnasiumGame(self._make_gymnasium(arguments))
        module = self._find_module()
        wanted = self.config.api_type
        has_parallel = hasattr(module, "parallel_env")
        if wanted is PettingZooAPIType.PARALLEL and not has_parallel:
            allowed = f"AEC ({self.config.env_id} lets its agents act in turn)"
            raise ConfigError(refuse("environment.api_type", wanted.value, allowed))
        in_turn = wanted is PettingZooAPIType.AEC or not has_parallel
        make = module.env if in_turn else module.parallel_env
        try:
            env = make(**arguments)
        except (TypeError, AssertionError, ValueError) as error:
            raise self._bad_arguments(error) from None
        kind = TurnGame if in_turn else ParallelGame
        return kind(env, self.config.wrappers.max_steps)

    def facts(self) -> EnvironmentFacts:
        """Make the environment once, to see its agents and spaces."""
        game = self.make()
        try:
            return EnvironmentFacts(
                tuple(game.agents),
                game.observation_spaces,
                game.action_spaces,
                self.codecs(game),
                in_turn=isinstance(game, TurnGame),
            )
        finally:
            game.close()

    def codecs(self, game: Game) -> dict[str, Codec]:
        """How each agent's observations are encoded."""
        observation_spaces = game.observation_spaces
        wrappers = self.config.wrappers
        try:
            plain = {
                agent: codec_for(space, image_size=wrappers.image_size, flatten_grids=wrappers.flatten_grids)
                for agent, space in observation_spaces.items()
            }
            if not wrappers.pad_observations:
                return plain
            longest = max(codec.size for codec in plain.values() if codec.kind in ("vector", "category"))
            return {agent: codec_for(space, padded_size=longest) for agent, space in observation_spaces.items()}
        except ValueError as error:
            allowed = f"an environment whose observations a network can take ({error})"
            raise ConfigError(refuse("environment.env_id", self.config.env_id, allowed)) from None

    def _make_gymnasium(self, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
        if self.config.api_type is not None:
            raise ConfigError(
                refuse("environment.api_type", self.config.api_type.value, "null (not a PettingZoo game)")
            )
        limit = self.config.wrappers.max_steps
        try:
            # Checking every step of an environment that its authors have checked costs more than many a step itself.
            return gymnasium.make(
                self.config.env_id, max_episode_steps=limit or None, disable_env_checker=True, **arguments
            )
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            reason = str(error).split("\n")[0]
            allowed = f"a registered Gymnasium environment ({reason})"
            raise ConfigError(refuse("environment.env_id", self.config.env_id, allowed)) from None
        except (TypeError, AssertionError, ValueError) as error:
            raise self._bad_arguments(error) from None

    def _find_module(self) -> Any:
        package, names = FAMILIES[self.config.family]
        if self.config.env_id not in names:
            raise ConfigError(
                refuse(
                    "environment.env_id",
                    self.config.env_id,
                    f"one of {', '.join(names)} (family {self.config.family.value})",
                    suggestion=closest(self.config.env_id, names),
                )
            )
        return importlib.import_module(f"{package}.{self.config.env_id}")

    def _bad_arguments(self, error: Exception) -> ConfigError:
        reason = str(error).split("\n")[0]
        allowed = f"arguments of {self.config.env_id} ({reason})"
        return ConfigError(refuse("environment.env_kwargs", self.config.env_kwargs, allowed))


def action_kind(space: spaces.Space[Any]) -> str:
    match space:
        case spaces.Discrete():
            return "discrete"
        case spaces.Box():
            return "box"
        case _:
            return type(space).__name__
