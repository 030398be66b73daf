"""Our games as XuanCe takes them: vector environments that can be watched, saved and put back where they were.

An environment is saved as the number of its episode, from which the episode's seed is made, and the actions taken since
its start. Taking them again puts any environment that is not random by itself exactly where it was, without a pickle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from xuance.environment import (
    DummyVecEnv,
    DummyVecMultiAgentEnv,
    RawEnvironment,
    RawMultiAgentEnv,
    XuanCeEnvWrapper,
    XuanCeMultiAgentEnvWrapper,
)

from mosaic.fastlane import Settings
from xuance_worker import corrections
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.environments import make_game
from xuance_worker.games import AGENT, Game, Turn
from xuance_worker.plan import Plan
from xuance_worker.remote import Making, RemoteGame

Observer = Callable[[Any, Any, Any, Any, Any], None]


class Tape:
    """The episodes of one environment: their seeds, and the actions taken in the current one."""

    def __init__(self, *seed: int) -> None:
        self._seed = seed
        self.episode = 0
        self.actions: list[Any] = []

    def next_seed(self) -> int:
        self.episode += 1
        self.actions = []
        return int(np.random.SeedSequence([*self._seed, self.episode]).generate_state(1)[0] >> 1)


class TeamEnvironment(RawMultiAgentEnv):
    """A game of several agents."""

    def __init__(self, game: Game, tape: Tape) -> None:
        super().__init__()
        self.env = self.game = game
        self.tape = tape
        self.agents = game.agents
        self.num_agents = len(game.agents)
        self.observation_space = game.observation_spaces
        self.action_space = game.action_spaces
        self.max_episode_steps = game.limit
        self.agent_groups = [game.agents]
        self.state_space = spaces.Box(-np.inf, np.inf, (game.state_size,), np.float32)
        self.render_mode = game.render_mode
        self.metadata: dict[str, Any] = {}

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return self.game.reset(self.tape.next_seed()).observations, {}

    def begin(self, actions: Any) -> None:
        self.game.begin(actions)

    def step(self, actions: Any) -> Any:
        self.tape.actions.append({agent: np.array(action) for agent, action in actions.items()})
        turn: Turn = self.game.step(actions)
        return turn.observations, turn.rewards, turn.terminated, turn.truncated, {}

    def state(self) -> Any:
        return self.game.state()

    def agent_mask(self) -> dict[str, bool]:
        """All count: what the idle do is fixed, and what comes to them meanwhile is theirs."""
        return dict.fromkeys(self.agents, True)

    def avail_actions(self) -> Any:
        return self.game.masks() if self.game.masked else None

    def render(self, *_: Any) -> Any:
        return self.game.render()

    def close(self) -> None:
        self.game.close()


class SoloEnvironment(RawEnvironment):
    """A game of one agent. Bounded continuous actions are scaled to -1 to 1, which is what XuanCe's actors give."""

    def __init__(self, game: Game, tape: Tape) -> None:
        super().__init__()
        self.env = self.game = game
        self.tape = tape
        self.observation_space = game.observation_spaces[AGENT]
        self.action_space = unit_space(game.action_spaces[AGENT])
        self.max_episode_steps = game.limit
        self.render_mode = game.render_mode
        self.metadata: dict[str, Any] = {}

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return self.game.reset(self.tape.next_seed()).observations[AGENT], {}

    def begin(self, action: Any) -> None:
        self.game.begin({AGENT: from_unit(action, self.game.action_spaces[AGENT])})

    def step(self, action: Any) -> Any:
        self.tape.actions.append(np.array(action))
        turn = self.game.step({AGENT: from_unit(action, self.game.action_spaces[AGENT])})
        return turn.observations[AGENT], turn.rewards[AGENT], turn.terminated[AGENT], turn.truncated, {}

    def render(self, *_: Any) -> Any:
        return self.game.render()

    def close(self) -> None:
        self.game.close()


def unit_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    if isinstance(space, spaces.Box) and space.is_bounded():
        return spaces.Box(-1, 1, space.shape, np.float32)
    return space


def from_unit(action: Any, space: spaces.Space[Any]) -> Any:
    """An action out of `unit_space(space)` as one of `space`."""
    if isinstance(space, spaces.Box) and space.is_bounded():
        share = (np.clip(np.asarray(action, np.float32).reshape(space.shape), -1, 1) + 1) / 2
        return space.low + share * (space.high - space.low)
    return action


class _Watched:
    """Tells an observer of each step. Games in other processes begin a step all at once."""

    envs: list[Any]
    actions: Any
    observer: Observer | None = None
    is_remote = False

    def step_async(self, actions: Any) -> None:
        super().step_async(actions)  # type: ignore[misc]
        if self.is_remote:
            for wrapper, action in zip(self.envs, self.actions, strict=True):
                wrapper.env.begin(action)

    def step_wait(self) -> Any:
        told = super().step_wait()  # type: ignore[misc]
        if self.observer is not None:
            self.observer(*told)
        return told


class _TeamVector(_Watched, DummyVecMultiAgentEnv):
    pass


class _SoloVector(_Watched, DummyVecEnv):
    pass


def make_vector(
    config: XuanCeWorkerConfig,
    plan: Plan,
    *,
    stage: int = 0,
    parallels: int | None = None,
    fastlane: Settings | None = None,
) -> Any:
    """The environments of a run, or of one stage of its curriculum, stepped together; corrected, not yet reset.

    With `parallels`, so many in this process, whatever the config says: for playing, not for training.
    """
    is_remote = config.vectorize == "subprocess" and parallels is None
    games = _games(config, plan, stage, parallels or config.parallels, fastlane, is_remote)

    def wrapped(index: int, game: Game) -> Callable[..., Any]:
        def make(env_seed: int) -> Any:
            for number, space in enumerate(game.action_spaces.values()):
                space.seed(int(np.random.SeedSequence([config.seed, stage, index, number]).generate_state(1)[0] >> 1))
            tape = Tape(config.seed, stage, index)
            if plan.entry.is_multi_agent:
                return XuanCeMultiAgentEnvWrapper(TeamEnvironment(game, tape))
            return XuanCeEnvWrapper(SoloEnvironment(game, tape))

        return make

    kind = _TeamVector if plan.entry.is_multi_agent else _SoloVector
    envs = kind([wrapped(index, game) for index, game in enumerate(games)], config.seed)
    envs.is_remote = is_remote
    corrections.keep_first_transition(envs)
    if plan.entry.is_multi_agent:
        corrections.remember_states(envs)
    return envs


def _games(
    config: XuanCeWorkerConfig, plan: Plan, stage: int, count: int, fastlane: Settings | None, is_remote: bool
) -> list[Game]:
    given = config.curriculum[stage] if config.curriculum else None
    env_id, env_kwargs = (given.env_id, given.env_kwargs) if given else ("", {})
    continuous = plan.kind == "box"
    if is_remote:
        started = [
            RemoteGame(Making(config, slot, env_id, env_kwargs, continuous, _of_process(fastlane, slot)))
            for slot in range(count)
        ]
        return [game.meet() for game in started]
    return [
        make_game(config, env_id=env_id, env_kwargs=env_kwargs, continuous=continuous, fastlane=fastlane, slot=slot)
        for slot in range(count)
    ]


def _of_process(fastlane: Settings | None, slot: int) -> Settings | None:
    """A stream has one writer. So there is no picture of all: each process shows its own environment."""
    if fastlane is None or fastlane.mode != "grid":
        return fastlane
    return dataclasses.replace(fastlane, mode="single", slot=slot) if slot < fastlane.grid_limit else None


def is_started(envs: Any) -> bool:
    return all(wrapper.env.tape.episode > 0 for wrapper in envs.envs)


def positions(envs: Any) -> list[Any]:
    """Where each environment stands, in plain values and arrays."""
    return [{"episode": wrapper.env.tape.episode, "actions": list(wrapper.env.tape.actions)} for wrapper in envs.envs]


def go_to(envs: Any, saved: list[Any]) -> None:
    """Put each environment where it stood when `positions` was asked."""
    for index, (wrapper, position) in enumerate(zip(envs.envs, saved, strict=True)):
        wrapper.env.tape.episode = position["episode"] - 1
        observation, info = wrapper.reset()
        for actions in position["actions"]:
            observation, _, _, _, info = wrapper.step(actions)
        if isinstance(envs, DummyVecMultiAgentEnv):
            envs.buf_obs[index], envs.buf_info[index] = observation, info
            envs.buf_state[index], envs.buf_avail_actions[index] = info["state"], info["avail_actions"]
        else:
            envs._save_obs(index, observation)
            envs.buf_info[index] = info


def action_randomness(envs: Any) -> list[Any]:
    """The random states of the action spaces, which exploration draws from."""
    return [space.np_random.bit_generator.state for space in _action_spaces(envs)]


def set_action_randomness(envs: Any, states: list[Any]) -> None:
    for space, state in zip(_action_spaces(envs), states, strict=True):
        space.np_random.bit_generator.state = state


def _action_spaces(envs: Any) -> list[Any]:
    space = envs.action_space
    return list(space.values()) if isinstance(space, dict) else [space]
