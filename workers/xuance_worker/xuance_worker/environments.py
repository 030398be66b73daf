"""The environments: PettingZoo's parallel and AEC games and Gymnasium's, all behind one face. Needs no XuanCe.

All agents of a game are asked at every step. Whoever has no say (it is not its turn, or it is out of the game) may
only take action 0, which is then not used: so no reward that comes to an idle agent is lost, not even a lost game's.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mosaic.fastlane import Settings, frames_mode, wrap_env
from mosaic.worker import ConfigError, refuse
from mosaic.worker.validation import closest
from xuance_worker.config import XuanCeWorkerConfig

AGENT = "agent"
Actions = Mapping[str, Any]
Vector = NDArray[np.float32]

PETTINGZOO: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "mpe": (
        "mpe2",
        (
            "simple_adversary_v3",
            "simple_crypto_v3",
            "simple_push_v3",
            "simple_reference_v3",
            "simple_speaker_listener_v4",
            "simple_spread_v3",
            "simple_tag_v3",
            "simple_world_comm_v3",
        ),
    ),
    "sisl": ("pettingzoo.sisl", ("multiwalker_v9", "pursuit_v5")),
    "butterfly": ("pettingzoo.butterfly", ("knights_archers_zombies_v11",)),
    "classic": ("pettingzoo.classic", ("connect_four_v3", "rps_v2", "tictactoe_v3")),
}


@dataclass
class Turn:
    """What a step gives; every agent has an entry in each."""

    observations: dict[str, Vector]
    rewards: dict[str, float] = field(default_factory=dict)
    terminated: dict[str, bool] = field(default_factory=dict)
    truncated: bool = False
    infos: Mapping[str, Any] = field(default_factory=dict)


class Game:
    """An environment of one agent or several with flat observations; subclasses say how it is reset and stepped."""

    def __init__(self, env: Any, agents: list[str], observation_spaces: Any, action_spaces: Any, limit: int) -> None:
        self.env = env
        self.agents = agents
        self._raw_spaces: dict[str, spaces.Space[Any]] = observation_spaces
        self.action_spaces: dict[str, spaces.Space[Any]] = action_spaces
        self.observation_spaces = {agent: _flat_space(space) for agent, space in observation_spaces.items()}
        self.masked = any(isinstance(space, spaces.Dict) for space in observation_spaces.values())
        self.limit = limit
        self._steps = 0
        self._masks: dict[str, NDArray[np.bool_]] = {}
        self._zeros = {agent: np.zeros(space.shape, np.float32) for agent, space in self.observation_spaces.items()}
        self.current: dict[str, Vector] = {}
        self.can_act: dict[str, bool] = {}

    def reset(self, seed: int | None) -> Turn:
        self._steps = 0
        return self._seen(self._reset(seed))

    def step(self, actions: Actions) -> Turn:
        self._steps += 1
        turn = self._seen(self._step(actions))
        if self._steps >= self.limit and not all(turn.terminated.values()):
            turn.truncated = True
        return turn

    def masks(self) -> dict[str, NDArray[np.bool_]]:
        """Which actions each agent may take now."""
        masks = {}
        for agent in self.agents:
            space = self.action_spaces[agent]
            assert isinstance(space, spaces.Discrete)
            given = self._masks.get(agent)
            if not self.can_act[agent] or (given is not None and not given.any()):
                masks[agent] = np.arange(space.n) == 0
            else:
                masks[agent] = np.ones(int(space.n), np.bool_) if given is None else given
        return masks

    def state(self) -> Vector:
        """What all agents see, as one vector."""
        return np.concatenate([self.current[agent] for agent in self.agents])

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _reset(self, seed: int | None) -> Turn:
        raise NotImplementedError

    def _step(self, actions: Actions) -> Turn:
        raise NotImplementedError

    def _seen(self, turn: Turn) -> Turn:
        turn.observations = self.current = {
            agent: self.flatten(agent, turn.observations[agent]) if agent in turn.observations else self._zeros[agent]
            for agent in self.agents
        }
        return turn

    def flatten(self, agent: str, observation: Any) -> Vector:
        """An observation as the networks take it; an action mask that comes with it is kept for `masks`."""
        if isinstance(observation, dict):
            self._masks[agent] = np.asarray(observation["action_mask"], np.bool_)
            observation = observation["observation"]
        space = self._raw_spaces[agent]
        if isinstance(space, spaces.Discrete):
            return np.asarray(np.arange(space.n) == observation - space.start, np.float32)
        return np.asarray(observation, np.float32).reshape(-1)

    def fit(self, agent: str, action: Any) -> Any:
        """An action as the environment takes it: continuous ones are drawn without bounds."""
        space = self.action_spaces[agent]
        if isinstance(space, spaces.Box):
            return np.clip(np.asarray(action).reshape(space.shape), space.low, space.high).astype(space.dtype)
        return int(action)


class ParallelGame(Game):
    """PettingZoo's parallel API: all living agents act at once."""

    def __init__(self, env: Any, limit: int) -> None:
        agents = list(env.possible_agents)
        observed = {agent: env.observation_space(agent) for agent in agents}
        acted = {agent: env.action_space(agent) for agent in agents}
        super().__init__(env, agents, observed, acted, limit)

    def _reset(self, seed: int | None) -> Turn:
        observations, infos = self.env.reset(seed=seed)
        self.can_act = dict.fromkeys(self.agents, True)
        return Turn(observations, infos=infos)

    def _step(self, actions: Actions) -> Turn:
        acting = {agent: self.fit(agent, actions[agent]) for agent in self.env.agents}
        observations, rewards, terminated, truncated, infos = self.env.step(acting)
        living = set(self.env.agents)
        self.can_act = {agent: agent in living for agent in self.agents}
        cut = any(truncated.values())
        return Turn(
            observations,
            {agent: float(rewards.get(agent, 0.0)) for agent in self.agents},
            # Who is not told of any more has ended earlier; a cut leaves the others unended.
            {agent: bool(terminated.get(agent, not cut)) for agent in self.agents},
            cut,
            infos,
        )


class TurnGame(Game):
    """PettingZoo's AEC API: one agent acts at a time, rewards come to all."""

    def __init__(self, env: Any, limit: int) -> None:
        agents = list(env.possible_agents)
        observed = {agent: env.observation_space(agent) for agent in agents}
        acted = {agent: env.action_space(agent) for agent in agents}
        super().__init__(env, agents, observed, acted, limit)
        self.masked = True  # of the idle

    def _reset(self, seed: int | None) -> Turn:
        self.env.reset(seed=seed)
        return Turn(self._observe())

    def _step(self, actions: Actions) -> Turn:
        agent = self.env.agent_selection
        self.env.step(self.fit(agent, actions[agent]))
        over = any(self.env.terminations.values())
        cut = not over and any(self.env.truncations.values())
        rewards = {agent: float(self.env.rewards.get(agent, 0.0)) for agent in self.agents}
        return Turn(self._observe(), rewards, dict.fromkeys(self.agents, over), cut)

    def _observe(self) -> dict[str, Any]:
        self.can_act = {agent: agent == self.env.agent_selection for agent in self.agents}
        return {agent: self.env.observe(agent) for agent in self.agents}


class GymnasiumGame(Game):
    """A single-agent environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], limit: int) -> None:
        super().__init__(env, [AGENT], {AGENT: env.observation_space}, {AGENT: env.action_space}, limit)
        self.can_act = {AGENT: True}

    def _reset(self, seed: int | None) -> Turn:
        observation, info = self.env.reset(seed=seed)
        return Turn({AGENT: observation}, infos={AGENT: info})

    def _step(self, actions: Actions) -> Turn:
        observation, reward, terminated, truncated, info = self.env.step(self.fit(AGENT, actions[AGENT]))
        return Turn(
            {AGENT: observation}, {AGENT: float(reward)}, {AGENT: bool(terminated)}, bool(truncated), {AGENT: info}
        )


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
    env_id = env_id or config.env_id
    arguments = {**config.env_kwargs, **(env_kwargs or {})}
    shown = render or (fastlane is not None and fastlane.is_on)
    kind: type[ParallelGame | TurnGame | GymnasiumGame]
    if config.env_family == "gymnasium":
        env, kind = _make_gymnasium(env_id, arguments, shown), GymnasiumGame
        limit = env.spec.max_episode_steps if env.spec else None
    else:
        if config.env_family == "mpe":
            arguments.setdefault("continuous_actions", continuous)
        env, kind = _make_pettingzoo(config.env_family, env_id, arguments, shown)
        limit = getattr(env.unwrapped, "max_cycles", None)
    if fastlane is not None:
        wrap_env(env, fastlane, slot=slot)
    try:
        return kind(env, config.max_steps or int(limit or 1_000))
    except UnfitSpace as error:
        env.close()
        raise ConfigError(refuse("env_id", env_id, f"an environment whose spaces fit ({error})")) from None


class UnfitSpace(Exception):
    """A space that none of the networks here takes."""


def _make_gymnasium(env_id: str, arguments: dict[str, Any], shown: bool) -> Any:
    try:
        if shown:
            spec = gymnasium.spec(env_id)
            creator = gymnasium.envs.registration.load_env_creator(spec.entry_point)  # type: ignore[arg-type]
            mode = frames_mode(getattr(creator, "metadata", None), arguments.get("render_mode"))
            arguments = {**arguments, "render_mode": mode}
        return gymnasium.make(env_id, **arguments)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(refuse("env_id", env_id, f"a registered Gymnasium environment ({reason})")) from None
    except (TypeError, AssertionError, ValueError) as error:
        raise _bad_arguments(env_id, arguments, error) from None


def _make_pettingzoo(
    family: str, env_id: str, arguments: dict[str, Any], shown: bool
) -> tuple[Any, type[ParallelGame | TurnGame]]:
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


def _bad_arguments(env_id: str, arguments: dict[str, Any], error: Exception) -> ConfigError:
    return ConfigError(refuse("env_kwargs", arguments, f"arguments of {env_id} ({str(error).splitlines()[0]})"))


def _flat_space(space: spaces.Space[Any]) -> spaces.Box:
    """The space of the vector that observations of a space are made into."""
    if isinstance(space, spaces.Dict) and {"observation", "action_mask"} <= set(space.spaces):
        space = space["observation"]
    match space:
        case spaces.Discrete():
            return spaces.Box(0, 1, (int(space.n),), np.float32)
        case spaces.Box() if not (space.dtype == np.uint8 and len(space.shape) == 3):
            return spaces.Box(-np.inf, np.inf, (int(np.prod(space.shape)),), np.float32)
    raise UnfitSpace(f"observations are {space}, allowed: vectors, small boards, numbers")
