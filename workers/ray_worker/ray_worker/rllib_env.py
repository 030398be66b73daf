"""Games as RLlib wants them: encoded observations, masks beside them, float rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import gymnasium.spaces as spaces
import msgspec
import numpy as np
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from ray_worker.config import EnvironmentConfig
from ray_worker.environments import EnvironmentFactory
from ray_worker.fastlane import make_watched
from ray_worker.games import Game, GymnasiumGame, Turn
from ray_worker.observations import Codec

MASK = "action_mask"
OBSERVATIONS = "observations"


def network_space(codec: Codec, action_space: spaces.Space[Any]) -> spaces.Space[Any]:
    """What a network gets to see: the encoded observation, with the mask beside it where there is one."""
    if not codec.masked:
        return codec.encoded_space
    assert isinstance(action_space, spaces.Discrete)
    mask = spaces.Box(0.0, 1.0, (int(action_space.n),), np.float32)
    return spaces.Dict({MASK: mask, OBSERVATIONS: codec.encoded_space})


def encode(codec: Codec, observation: Any) -> Any:
    encoded = codec.encode(observation)
    return {MASK: codec.mask(observation), OBSERVATIONS: encoded} if codec.masked else encoded


class MultiAgentGame(MultiAgentEnv):
    """A PettingZoo game for RLlib. All agents count as present throughout: RLlib's checker wants it so."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        factory = EnvironmentFactory(msgspec.convert(dict(config), EnvironmentConfig))
        self._game = make_watched(factory)
        self._codecs = factory.codecs(self._game)
        self.possible_agents = list(self._game.agents)
        self.agents = list(self.possible_agents)
        self.action_spaces = dict(self._game.action_spaces)
        self.observation_spaces = {
            agent: network_space(codec, self.action_spaces[agent]) for agent, codec in self._codecs.items()
        }
        self.observation_space = spaces.Dict(self.observation_spaces)
        self.action_space = spaces.Dict(self.action_spaces)
        self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._encode(self._game.reset(seed)), {}

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        turn = self._game.step(actions)
        ended = {"__all__": turn.over and not turn.cut}
        cut = {"__all__": turn.cut}
        return self._encode(turn), turn.rewards, {**turn.terminated, **ended}, {**turn.truncated, **cut}, {}

    def _encode(self, turn: Turn) -> dict[str, Any]:
        return {agent: encode(self._codecs[agent], seen) for agent, seen in turn.observations.items()}

    def render(self) -> Any:
        return self._game.render()

    def close(self) -> None:
        self._game.close()


def make_single(config: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """A game of one agent for RLlib; a Gymnasium environment as it is, where its observations need no encoding."""
    factory = EnvironmentFactory(msgspec.convert(dict(config), EnvironmentConfig))
    game = make_watched(factory)
    (agent,) = game.agents
    codec = factory.codecs(game)[agent]
    is_ready = isinstance(game, GymnasiumGame) and game.observation_spaces[agent].dtype == np.float32
    if is_ready and codec.is_identity:
        env: gymnasium.Env[Any, Any] = game.env
        return env
    return SingleAgentGame(game, agent, codec)


class SingleAgentGame(gymnasium.Env[Any, Any]):
    """A game of one agent whose observations are encoded."""

    def __init__(self, game: Game, agent: str, codec: Codec) -> None:
        self._game = game
        self._agent = agent
        self._codec = codec
        self.action_space = self._game.action_spaces[agent]
        self.observation_space = network_space(self._codec, self.action_space)
        self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return encode(self._codec, self._game.reset(seed).observations[self._agent]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        turn = self._game.step({self._agent: action})
        observation = encode(self._codec, turn.observations[self._agent])
        return observation, turn.rewards[self._agent], turn.terminated[self._agent], turn.truncated[self._agent], {}

    def render(self) -> Any:
        return self._game.render()

    def close(self) -> None:
        self._game.close()
