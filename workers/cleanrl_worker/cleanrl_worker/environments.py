"""Making environments: registered, checked against an algorithm, seen as the algorithm can see them."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from cleanrl_worker.families import ActionSpace, Observation, family_of
from mosaic.fastlane import frames_mode
from mosaic.worker import ConfigError, refuse

# gymnasium's own make: in the process of a script `patches` has put another in its place.
plain_make: Callable[..., Any] = getattr(gymnasium.make, "plain", gymnasium.make)


def register(env_id: str, *, field: str = "env_id") -> None:
    """Make the id known to gymnasium, or say which extra is missing."""
    family = family_of(env_id)
    if not family.installed:
        allowed = f"an environment that is installed: {family.name} needs extra {family.extra!r}"
        raise ConfigError(refuse(field, env_id, f"{allowed} (./mosaic worker install cleanrl[{family.extra}])"))
    if family.registers is not None and env_id not in gymnasium.registry:
        module, _, function = family.registers.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()


def make_options(env_id: str, options: Mapping[str, Any], wants_frames: bool) -> dict[str, Any]:
    """The arguments for gymnasium.make: those of the script, and what frames and speed ask for."""
    # The checker costs microseconds a step; old gym's make, which most scripts expect, has none.
    result = {"disable_env_checker": True, **options}
    if wants_frames and "render_mode" not in options:
        mode = frames_mode(_metadata(env_id), None)
        result |= {"render_mode": mode} if mode else {}
    return result


def _metadata(env_id: str) -> Any:
    """What the class behind an id says of itself before anything is made of it."""
    creator = gymnasium.spec(env_id).entry_point
    if isinstance(creator, str):
        creator = gymnasium.envs.registration.load_env_creator(creator)
    elif family_of(env_id).name == "dm_control":
        # Its ids are made by functions, which all make one of these.
        creator = importlib.import_module("shimmy.dm_control_compatibility").DmControlCompatibilityV0
    return getattr(creator, "metadata", {})


def make(env_id: str, observation: Observation, *, field: str = "env_id", **kwargs: Any) -> Any:
    """An environment whose observations are what the algorithm can take."""
    register(env_id, field=field)
    env = plain_make(env_id, **make_options(env_id, kwargs, wants_frames=False))
    return prepare(env, observation)


def prepare(env: Any, observation: Observation) -> Any:
    if family_of(env.spec.id if env.spec else "").extra == "minigrid":
        env = importlib.import_module("minigrid.wrappers").ImgObsWrapper(env)
        if observation == "any":
            return env
    if observation != "image":
        space = env.observation_space
        if not (isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1):
            env = gymnasium.wrappers.FlattenObservation(env)
        if env.observation_space.dtype not in (np.float32, np.float64):
            env = AsFloat32(env)
    return env


class AsFloat32(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
    """Replay buffers keep the dtype of the space, and networks want floats."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        self.observation_space = gymnasium.spaces.Box(
            space.low.astype(np.float32), space.high.astype(np.float32), space.shape, np.float32
        )

    def observation(self, observation: Any) -> Any:
        return observation.astype(np.float32)


def check_fit(
    env_id: str, algorithm: str, observation: Observation, action_space: ActionSpace, *, field: str = "env_id"
) -> tuple[Any, Any]:
    """Make the environment once and see whether the algorithm can take its spaces; the spaces, or ConfigError."""
    if family_of(env_id).whole:
        return whole_spaces(env_id, field=field)
    try:
        env = make(env_id, observation, field=field)
    except gymnasium.error.Error as error:
        reason = " ".join(str(error).split())
        raise ConfigError(refuse(field, env_id, f"a registered Gymnasium environment ({reason})")) from None
    try:
        _check_spaces(env, env_id, algorithm, observation, action_space, field)
        return env.observation_space, env.action_space
    finally:
        env.close()


def whole_spaces(env_id: str, *, field: str = "env_id") -> tuple[Any, Any]:
    """The spaces of one environment of a family that comes as whole vectors, or ConfigError if there is no such id."""
    register(env_id, field=field)
    return {"envpool": _envpool_spaces, "procgen": _procgen_spaces, "maatari": _players_spaces}[family_of(env_id).name](
        env_id, field
    )


def _envpool_spaces(env_id: str, field: str) -> tuple[Any, Any]:
    registry = importlib.import_module("envpool.registration").registry
    atari = sorted(name for name, (module, *_) in registry.specs.items() if module == "envpool.atari")
    if env_id not in atari:
        near = difflib.get_close_matches(env_id, atari, 3, 0.3)
        raise ConfigError(
            refuse(field, env_id, f"one of envpool's {len(atari)} Atari games, such as {', '.join(near)}")
        )
    spec = registry.make_spec(env_id)
    return spec.gymnasium_observation_space, spec.gymnasium_action_space


def _procgen_spaces(env_id: str, field: str) -> tuple[Any, Any]:
    from cleanrl_worker.bridge import space_to_gymnasium

    env = importlib.import_module("procgen").ProcgenEnv(1, env_id, num_threads=0)
    return space_to_gymnasium(env.observation_space)["rgb"], space_to_gymnasium(env.action_space)


def _players_spaces(env_id: str, field: str) -> tuple[Any, Any]:
    games = [info.name for info in pkgutil.iter_modules(importlib.import_module("pettingzoo.atari").__path__)]
    games = sorted(name for name in games if family_of(name).name == "maatari")
    if env_id not in games:
        raise ConfigError(refuse(field, env_id, f"one of PettingZoo's Atari games: {', '.join(games)}"))
    env = importlib.import_module(f"pettingzoo.atari.{env_id}").parallel_env()
    try:
        players = env.possible_agents
        if len(players) != 2:
            raise ConfigError(refuse(field, env_id, f"a game for two players (this one is for {len(players)})"))
        return env.observation_space(players[0]), env.action_space(players[0])
    finally:
        env.close()


def same_spaces(
    env_id: str, like: str, algorithm: str, observation: Observation, action_space: ActionSpace, *, field: str
) -> None:
    """Check that an environment can take the place of another while an algorithm trains."""
    spaces = check_fit(env_id, algorithm, observation, action_space, field=field)
    wanted = check_fit(like, algorithm, observation, action_space)
    if spaces != wanted:
        raise ConfigError(refuse(field, env_id, f"an environment with the spaces of {like} ({wanted[0]}, {wanted[1]})"))


def _check_spaces(
    env: Any, env_id: str, algorithm: str, observation: Observation, action_space: ActionSpace, field: str
) -> None:
    wanted = {"discrete": gymnasium.spaces.Discrete, "continuous": gymnasium.spaces.Box}[action_space]
    if not isinstance(env.action_space, wanted):
        allowed = f"an environment with {action_space} actions for {algorithm} (this one has {env.action_space})"
        raise ConfigError(refuse(field, env_id, allowed))
    space = env.observation_space
    if observation != "image" and not isinstance(space, gymnasium.spaces.Box):
        allowed = f"an environment with vector observations for {algorithm} (this one has {space})"
        raise ConfigError(refuse(field, env_id, allowed))
