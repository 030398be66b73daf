"""`--interactive`: somebody outside steps the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mosaic.worker.actions import fit_actions
from ray_worker.games import AGENT, Game, Turn


class GameSession:
    """With one agent, plain answers as Gymnasium gives them; with several, an entry for each agent."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._turn: Turn | None = None
        self._is_single = game.agents == [AGENT]

    def reset(self, seed: int | None) -> Mapping[str, Any]:
        self._turn = self._game.reset(seed)
        if self._is_single:
            return {"observation": self._turn.observations[AGENT], "info": self._turn.infos.get(AGENT, {})}
        return {"observations": self._turn.observations, "infos": self._turn.infos, "agents": self._turn.to_act}

    def step(self, action: Any) -> Mapping[str, Any]:
        """`action` is the agent's action, or an object with an action for each agent whose turn it is."""
        if self._turn is None or self._turn.over:
            raise ValueError("step: there is no episode to step, reset first")
        actions = {AGENT: action} if self._is_single else action
        turn = self._turn = self._game.step(fit_actions(actions, self._game.action_spaces, self._turn.to_act))
        if self._is_single:
            return {
                "observation": turn.observations[AGENT],
                "reward": turn.rewards[AGENT],
                "terminated": turn.terminated[AGENT],
                "truncated": turn.truncated[AGENT],
                "info": turn.infos.get(AGENT, {}),
            }
        return {
            "observations": turn.observations,
            "rewards": turn.rewards,
            "terminated": turn.terminated,
            "truncated": turn.truncated,
            "infos": turn.infos,
            "agents": turn.to_act,
            "over": turn.over,
        }

    def render(self) -> Any:
        return np.asarray(self._game.render(), dtype=np.uint8)

    def close(self) -> None:
        self._game.close()
