"""Games: PettingZoo's parallel and AEC environments and Gymnasium's, all behind one face. Needs no XuanCe.

All agents of a game are asked at every step. Whoever has no say (it is not its turn, or it is out of the game) may
only take action 0, which is then not used: so no reward that comes to an idle agent is lost, not even a lost game's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from xuance_worker.observing import Eye, Seen

AGENT = "agent"
Actions = Mapping[str, Any]
Mask = NDArray[np.bool_]


@dataclass
class Turn:
    """What a step gives; every agent has an entry in each."""

    observations: dict[str, Seen]
    rewards: dict[str, float] = field(default_factory=dict)
    terminated: dict[str, bool] = field(default_factory=dict)
    truncated: bool = False
    infos: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class How:
    """How a game is played: cut after `limit` steps, images shrunk to squares of `image_size`."""

    limit: int
    image_size: int


class Game:
    """An environment of one agent or several; subclasses say how it is reset and stepped."""

    def __init__(self, env: Any, spaces_of: Mapping[str, tuple[Any, Any]], how: How) -> None:
        """`spaces_of`: each agent's spaces of observations and actions, as the environment has them."""
        self.env = env
        self.agents = list(spaces_of)
        self.eyes = {agent: Eye(observed, how.image_size) for agent, (observed, _) in spaces_of.items()}
        self.observation_spaces = {agent: eye.space for agent, eye in self.eyes.items()}
        self.action_spaces: dict[str, spaces.Space[Any]] = {agent: acted for agent, (_, acted) in spaces_of.items()}
        self.masked = any(isinstance(observed, spaces.Dict) for observed, _ in spaces_of.values())
        self.state_size = sum(int(np.prod(space.shape)) for space in self.observation_spaces.values())
        self.limit = how.limit
        self._steps = 0
        self._masks: dict[str, Mask] = {}
        self.current: dict[str, Seen] = {}
        self.can_act: dict[str, bool] = {}

    @property
    def render_mode(self) -> str | None:
        mode: str | None = getattr(self.env, "render_mode", None)
        return mode

    @property
    def sees_images(self) -> bool:
        return any(eye.sees_images for eye in self.eyes.values())

    def reset(self, seed: int | None) -> Turn:
        self._steps = 0
        return self._seen(self._reset(seed))

    def step(self, actions: Actions) -> Turn:
        self._steps += 1
        turn = self._seen(self._step(actions))
        if self._steps >= self.limit and not all(turn.terminated.values()):
            turn.truncated = True
        return turn

    def begin(self, actions: Actions) -> None:
        """The step that will be asked for next. A game elsewhere begins it now, while others are stepped."""

    def masks(self) -> dict[str, Mask]:
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

    def state(self) -> Seen:
        """What all agents see, as one vector."""
        return np.concatenate([self.current[agent].reshape(-1) for agent in self.agents])

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
            agent: self.see(agent, turn.observations[agent]) if agent in turn.observations else self.eyes[agent].blank
            for agent in self.agents
        }
        return turn

    def see(self, agent: str, observation: Any) -> Seen:
        """An observation as the networks take it; an action mask that comes with it is kept for `masks`."""
        if isinstance(observation, dict):
            self._masks[agent] = np.asarray(observation["action_mask"], np.bool_)
            observation = observation["observation"]
        return self.eyes[agent].see(observation)

    def fit(self, agent: str, action: Any) -> Any:
        """An action as the environment takes it: continuous ones are drawn without bounds."""
        space = self.action_spaces[agent]
        if isinstance(space, spaces.Box):
            return np.clip(np.asarray(action).reshape(space.shape), space.low, space.high).astype(space.dtype)
        return int(action)


class ParallelGame(Game):
    """PettingZoo's parallel API: all living agents act at once."""

    def __init__(self, env: Any, how: How) -> None:
        super().__init__(env, _spaces_of(env), how)

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

    def __init__(self, env: Any, how: How) -> None:
        super().__init__(env, _spaces_of(env), how)
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

    def __init__(self, env: gymnasium.Env[Any, Any], how: How) -> None:
        super().__init__(env, {AGENT: (env.observation_space, env.action_space)}, how)
        self.can_act = {AGENT: True}

    def _reset(self, seed: int | None) -> Turn:
        observation, info = self.env.reset(seed=seed)
        return Turn({AGENT: observation}, infos={AGENT: info})

    def _step(self, actions: Actions) -> Turn:
        observation, reward, terminated, truncated, info = self.env.step(self.fit(AGENT, actions[AGENT]))
        return Turn(
            {AGENT: observation}, {AGENT: float(reward)}, {AGENT: bool(terminated)}, bool(truncated), {AGENT: info}
        )


def _spaces_of(env: Any) -> dict[str, tuple[Any, Any]]:
    return {agent: (env.observation_space(agent), env.action_space(agent)) for agent in env.possible_agents}
