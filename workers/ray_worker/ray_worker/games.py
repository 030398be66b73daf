"""One face for every environment: reset, then steps with the actions of those whose turn it is. Needs no Ray.

Single-agent Gymnasium environments are games of one agent. PettingZoo's parallel environments ask all living agents at
once, its AEC environments one after another; in those, an agent's reward is all that came its way since its last turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import gymnasium.spaces as spaces
import numpy as np

AGENT = "agent"
Actions = Mapping[str, Any]


@dataclass
class Turn:
    """What agents get to see: `observations` holds an entry for each that acts next or has just ended."""

    observations: dict[str, Any]
    rewards: dict[str, float] = field(default_factory=dict)
    terminated: dict[str, bool] = field(default_factory=dict)
    truncated: dict[str, bool] = field(default_factory=dict)
    infos: dict[str, Any] = field(default_factory=dict)
    # The episode is over; `cut` if some agent was only cut short.
    over: bool = False
    cut: bool = False

    @property
    def to_act(self) -> list[str]:
        return [
            agent
            for agent in self.observations
            if not (self.over or self.terminated.get(agent) or self.truncated.get(agent))
        ]


class Game(Protocol):
    # The environment itself, for those who look at it.
    env: Any
    agents: list[str]
    observation_spaces: dict[str, spaces.Space[Any]]
    action_spaces: dict[str, spaces.Space[Any]]

    def reset(self, seed: int | None = None) -> Turn: ...

    def step(self, actions: Actions) -> Turn: ...

    def render(self) -> Any: ...

    def close(self) -> None: ...


class GymnasiumGame:
    """A single-agent environment."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        self.agents = [AGENT]
        self.observation_spaces = {AGENT: env.observation_space}
        self.action_spaces = {AGENT: env.action_space}

    def reset(self, seed: int | None = None) -> Turn:
        observation, info = self.env.reset(seed=seed)
        return Turn({AGENT: observation}, infos={AGENT: info})

    def step(self, actions: Actions) -> Turn:
        observation, reward, terminated, truncated, info = self.env.step(actions[AGENT])
        return Turn(
            {AGENT: observation},
            {AGENT: float(reward)},
            {AGENT: terminated},
            {AGENT: truncated},
            {AGENT: info},
            over=terminated or truncated,
            cut=truncated and not terminated,
        )

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class _PettingZooGame:
    def __init__(self, env: Any, max_steps: int = 0) -> None:
        self.env = env
        self._max_steps = max_steps
        self._steps = 0
        self.agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.agents}

    def _count(self) -> bool:
        """Count a step; the answer is whether it was the last one allowed."""
        self._steps += 1
        return 0 < self._max_steps <= self._steps

    def _fit(self, agent: str, action: Any) -> Any:
        space = self.action_spaces[agent]
        if isinstance(space, spaces.Box):
            return np.clip(action, space.low, space.high).astype(space.dtype)
        return int(action) if isinstance(space, spaces.Discrete) else action

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class ParallelGame(_PettingZooGame):
    """A PettingZoo environment whose living agents act at once."""

    def reset(self, seed: int | None = None) -> Turn:
        self._steps = 0
        observations, infos = self.env.reset(seed=seed)
        return Turn(dict(observations), infos=dict(infos or {}))

    def step(self, actions: Actions) -> Turn:
        last = self._count()
        told = self.env.step({agent: self._fit(agent, action) for agent, action in actions.items()})
        observations, rewards, terminated, truncated, infos = told
        turn = Turn(
            dict(observations),
            {agent: float(reward) for agent, reward in rewards.items()},
            {agent: bool(value) for agent, value in terminated.items()},
            {agent: bool(value) for agent, value in truncated.items()},
            dict(infos or {}),
            over=not self.env.agents,
        )
        if last and not turn.over:
            turn.over = True
            turn.truncated = {agent: not turn.terminated.get(agent, False) for agent in turn.observations}
        turn.cut = turn.over and any(turn.truncated.values())
        return turn


class TurnGame(_PettingZooGame):
    """A PettingZoo environment whose agents act one after another."""

    def reset(self, seed: int | None = None) -> Turn:
        self._steps = 0
        self.env.reset(seed=seed)
        return self._next()

    def step(self, actions: Actions) -> Turn:
        last = self._count()
        agent = self.env.agent_selection
        self.env.step(self._fit(agent, actions[agent]))
        turn = self._next()
        if last and not turn.over:
            self._cut_short(turn)
        return turn

    def _next(self) -> Turn:
        """Go on to the next agent that can act; those that end on the way are told so, each with its last reward."""
        turn = Turn({})
        while self.env.agents:
            agent = self.env.agent_selection
            observation, reward, terminated, truncated, info = self.env.last()
            turn.observations[agent] = observation
            turn.rewards[agent] = float(reward)
            turn.terminated[agent], turn.truncated[agent] = bool(terminated), bool(truncated)
            turn.infos[agent] = info
            if not (terminated or truncated):
                return turn
            self.env.step(None)
        turn.over = True
        turn.cut = any(turn.truncated.values())
        return turn

    def _cut_short(self, turn: Turn) -> None:
        """End the episode for all: those who wait for their turn get what has come their way meanwhile."""
        for agent in self.env.agents:
            turn.observations.setdefault(agent, self.env.observe(agent))
            turn.rewards[agent] = float(self.env._cumulative_rewards[agent])
            turn.terminated[agent], turn.truncated[agent] = False, True
        turn.over = turn.cut = True
