"""`--interactive`: somebody outside steps the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from mosaic.worker.actions import fit_actions
from xuance_worker.games import AGENT, Game


class GameSession:
    """With one agent, plain answers as Gymnasium gives them; with several, an entry for each agent."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._running = False
        self._is_single = game.agents == [AGENT]
        self._all_discrete = all(isinstance(space, spaces.Discrete) for space in game.action_spaces.values())

    def reset(self, seed: int | None) -> Mapping[str, Any]:
        turn = self._game.reset(seed)
        self._running = True
        if self._is_single:
            return {"observation": turn.observations[AGENT], "info": dict(turn.infos).get(AGENT, {})}
        return {"observations": turn.observations, **self._state()}

    def step(self, action: Any) -> Mapping[str, Any]:
        """`action` is the agent's action, or an object with an action for each agent whose turn it is."""
        if not self._running:
            raise ValueError("step: there is no episode to step, reset first")
        asked = {AGENT: action} if self._is_single else action
        actions = fit_actions(asked, self._game.action_spaces, self._acting())
        # Those whose turn it is not are asked all the same, and may only say 0.
        turn = self._game.step({agent: actions.get(agent, 0) for agent in self._game.agents})
        over = turn.truncated or all(turn.terminated.values())
        self._running = not over
        if self._is_single:
            return {
                "observation": turn.observations[AGENT],
                "reward": turn.rewards[AGENT],
                "terminated": turn.terminated[AGENT],
                "truncated": turn.truncated,
                "info": dict(turn.infos).get(AGENT, {}),
            }
        return {
            "observations": turn.observations,
            "rewards": turn.rewards,
            "terminated": turn.terminated,
            "truncated": turn.truncated,
            "over": over,
            **self._state(),
        }

    def _acting(self) -> list[str]:
        return [agent for agent in self._game.agents if self._game.can_act[agent]]

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"agents": self._acting()}
        if self._game.masked and self._all_discrete:
            state["action_masks"] = self._game.masks()
        return state

    def close(self) -> None:
        self._game.close()
