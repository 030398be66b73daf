"""Which environments there are, and how each is made. Needs no XuanCe."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from mosaic.fastlane import Settings, frames_mode, wrap_env
from mosaic.worker import ConfigError, refuse
from mosaic.worker.validation import closest
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.games import Game, GymnasiumGame, How, ParallelGame, TurnGame
from xuance_worker.observing import UnfitSpace
from xuance_worker.starcraft import BattleGame, make_battle

DEFAULT_LIMIT = 1_000

PETTINGZOO: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "mpe": (
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
    "sisl": ("pettingzoo.sisl", ("multiwalker_v9", "pursuit_v5")),
    "butterfly": (
        "pettingzoo.butterfly",
        ("cooperative_pong_v6", "knights_archers_zombies_v11", "pistonball_v6"),
    ),
    "classic": (
        "pettingzoo.classic",
        (
            "chess_v6",
            "connect_four_v3",
            "go_v5",
            "leduc_holdem_v4",
            "rps_v2",
            "texas_holdem_no_limit_v6",
            "texas_holdem_v4",
            "tictactoe_v3",
        ),
    ),
}


UNSEEN = ("smac",)  # they have no pictures to show

# What makes an environment take box actions: given where the algorithm needs them, or needs others.
CONTINUOUS: Mapping[str, str] = {
    "mpe": "continuous_actions",
    "pistonball_v6": "continuous",
    "CarRacing-v3": "continuous",
    "LunarLander-v3": "continuous",
}


def make_game(
    config: XuanCeWorkerConfig,
    *,
    env_id: str = "",
    env_kwargs: Mapping[str, Any] | None = None,
    continuous: bool = False,
    fastlane: Settings | None = None,
    slot: int = 0,
    render: bool = False,
) -> Game:
    """A new environment as the config (or a stage of its curriculum) names it, or a ConfigError that says why not."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    family, env_id = config.env_family, env_id or config.env_id
    arguments = {**config.env_kwargs, **(env_kwargs or {})}
    if switch := CONTINUOUS.get(env_id) or CONTINUOUS.get(family):
        arguments.setdefault(switch, continuous)
    shown = render or (fastlane is not None and fastlane.is_on)
    env, kind = MAKERS[family](family, env_id, arguments, shown)
    if fastlane is not None and family not in UNSEEN:
        wrap_env(env, fastlane, slot=slot)
    try:
        return kind(env, How(config.max_steps or _limit_of(env) or DEFAULT_LIMIT, config.image_size))
    except UnfitSpace as error:
        env.close()
        raise ConfigError(refuse("env_id", env_id, f"an environment whose spaces fit ({error})")) from None


def _limit_of(env: Any) -> int | None:
    given = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    inner = getattr(env, "unwrapped", env)
    limits = (getattr(inner, name, None) for name in ("max_cycles", "max_steps", "episode_limit"))
    return given or next((limit for limit in limits if limit), None)


Kind = Callable[[Any, How], Game]


def _make_gymnasium(family: str, env_id: str, arguments: dict[str, Any], shown: bool) -> tuple[Any, Kind]:
    try:
        if shown:
            spec = gymnasium.spec(env_id)
            creator = gymnasium.envs.registration.load_env_creator(spec.entry_point)  # type: ignore[arg-type]
            mode = frames_mode(getattr(creator, "metadata", None), arguments.get("render_mode"))
            arguments = {**arguments, "render_mode": mode}
        return gymnasium.make(env_id, **arguments), GymnasiumGame
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(refuse("env_id", env_id, f"a registered Gymnasium environment ({reason})")) from None
    except (TypeError, AssertionError, ValueError) as error:
        raise _bad_arguments(env_id, arguments, error) from None


def _make_minigrid(family: str, env_id: str, arguments: dict[str, Any], shown: bool) -> tuple[Any, Kind]:
    """The agent sees its surroundings as numbers: what stands there, its colour, its state. Missions are left out."""
    _require(family, "minigrid", "mosaic worker install 'xuance[minigrid]'")
    importlib.import_module("minigrid")
    wrappers = importlib.import_module("minigrid.wrappers")
    names = [name for name in gymnasium.registry if name.startswith(("MiniGrid-", "BabyAI-"))]
    if env_id not in names:
        allowed = f"one of MiniGrid's or BabyAI's {len(names)}, such as MiniGrid-Empty-5x5-v0"
        raise ConfigError(refuse("env_id", env_id, allowed, suggestion=closest(env_id, names)))
    env, kind = _make_gymnasium(family, env_id, arguments, shown)
    return wrappers.ImgObsWrapper(env), kind


def _make_pettingzoo(family: str, env_id: str, arguments: dict[str, Any], shown: bool) -> tuple[Any, Kind]:
    package, names = PETTINGZOO[family]
    if env_id not in names:
        allowed = f"one of {', '.join(names)} (family {family})"
        raise ConfigError(refuse("env_id", env_id, allowed, suggestion=closest(env_id, names)))
    module = importlib.import_module(f"{package}.{env_id}")
    if shown:
        arguments = {"render_mode": "rgb_array", **arguments}
    try:
        if hasattr(module, "parallel_env"):
            return module.parallel_env(**arguments), ParallelGame
        return module.env(**arguments), TurnGame
    except (TypeError, AssertionError, ValueError) as error:
        raise _bad_arguments(env_id, arguments, error) from None


def _make_smac(family: str, env_id: str, arguments: dict[str, Any], shown: bool) -> tuple[Any, Kind]:
    try:
        return make_battle(family, env_id, arguments), BattleGame
    except TypeError as error:
        raise _bad_arguments(env_id, arguments, error) from None


def _require(family: str, package: str, how: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError(refuse("env_family", family, f"a family whose package is installed ({package}: {how})"))


def _bad_arguments(env_id: str, arguments: dict[str, Any], error: Exception) -> ConfigError:
    return ConfigError(refuse("env_kwargs", arguments, f"arguments of {env_id} ({str(error).splitlines()[0]})"))


MAKERS: Mapping[str, Callable[[str, str, dict[str, Any], bool], tuple[Any, Kind]]] = {
    **dict.fromkeys(PETTINGZOO, _make_pettingzoo),
    "gymnasium": _make_gymnasium,
    "minigrid": _make_minigrid,
    "smac": _make_smac,
}
