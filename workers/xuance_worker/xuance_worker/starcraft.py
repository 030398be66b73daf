"""SMAC: battles in StarCraft II, where it is installed. Needs no XuanCe.

The tests drive it with a stand-in that has SMAC's functions, because there is no StarCraft II where they run: what they
check is that these are called and answered for as they should be.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from mosaic.worker import ConfigError, refuse
from xuance_worker.games import Actions, Game, How, Turn
from xuance_worker.observing import Seen

GAME = "SC2PATH"


class BattleGame(Game):
    """A team against the game's own. The dead may only take action 0; the state is SMAC's, not what all see."""

    def __init__(self, env: Any, how: How) -> None:
        info = env.get_env_info()
        agents = [f"agent_{number}" for number in range(info["n_agents"])]
        seen = spaces.Box(-np.inf, np.inf, (info["obs_shape"],), np.float32)
        super().__init__(env, {agent: (seen, spaces.Discrete(info["n_actions"])) for agent in agents}, how)
        self.masked = True
        self.state_size = info["state_shape"]

    @property
    def render_mode(self) -> str | None:
        return None

    def _reset(self, seed: int | None) -> Turn:
        self.env._seed = seed  # which SMAC reads only when it starts the game
        self.env.reset()
        return Turn(self._observe())

    def _step(self, actions: Actions) -> Turn:
        reward, over, info = self.env.step([self.fit(agent, actions[agent]) for agent in self.agents])
        # Its end by the clock is told as a cut only if one asks for that (continuing_episode).
        cut = bool(over and info.get("episode_limit"))
        ended = dict.fromkeys(self.agents, bool(over) and not cut)
        return Turn(self._observe(), dict.fromkeys(self.agents, float(reward)), ended, cut)

    def _observe(self) -> dict[str, Any]:
        masks = self.env.get_avail_actions()
        self._masks = {agent: np.asarray(mask, np.bool_) for agent, mask in zip(self.agents, masks, strict=True)}
        self.can_act = {agent: not mask[0] for agent, mask in self._masks.items()}
        return dict(zip(self.agents, self.env.get_obs(), strict=True))

    def state(self) -> Seen:
        return np.asarray(self.env.get_state(), np.float32)


def make_battle(family: str, env_id: str, arguments: dict[str, Any]) -> Any:
    """SMAC's environment of a map; the game itself starts with the first episode."""
    place = os.environ.get(GAME)
    if not place or not Path(place).is_dir():
        given = f"it is {place}, which is no folder" if place else "it is not set"
        allowed = f"a family that is installed: this one needs StarCraft II, and {GAME} to name its folder ({given})"
        raise ConfigError(refuse("env_family", family, allowed))
    # The package index has another package of that name, which has no environments.
    if importlib.util.find_spec("smac") is None or importlib.util.find_spec("smac.env") is None:
        allowed = (
            "a family that is installed: this one needs SMAC in the worker's environment (github.com/oxwhirl/smac)"
        )
        raise ConfigError(refuse("env_family", family, allowed))
    try:
        return importlib.import_module("smac.env").StarCraft2Env(map_name=env_id, **arguments)
    except KeyError:
        raise ConfigError(refuse("env_id", env_id, "one of SMAC's maps, such as 3m, 8m, 2s3z")) from None
