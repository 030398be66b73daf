"""Trained policies: read from a checkpoint, they act without exploring. For evaluation and `--serve`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mosaic.worker import ConfigError, refuse
from mosaic.worker.checkpoints import read_card
from xuance_worker import CAPABILITIES, checkpoints
from xuance_worker.acting import Actor
from xuance_worker.building import build_agent, prepare_xuance
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.games import AGENT, Game
from xuance_worker.plan import Plan, make_plan
from xuance_worker.vector import from_unit, make_vector


class TrainedPolicy:
    """Acts greedily for one agent or all agents of the environment that it was trained on."""

    def __init__(self, folder: Path) -> None:
        card = read_card(folder)
        if card.worker != CAPABILITIES.worker_type:
            raise ConfigError(refuse("checkpoint", card.worker, f"a checkpoint of worker {CAPABILITIES.worker_type!r}"))
        saved = msgspec.convert(json.loads((folder / checkpoints.CONFIG).read_text()), XuanCeWorkerConfig)
        config = dataclasses.replace(saved, device="cpu")
        prepare_xuance()
        self._plan = make_plan(config)
        self._envs = make_vector(config, self._plan, parallels=1)
        # XuanCe makes a replay buffer with every agent; this one will never be filled.
        small = dataclasses.replace(self._plan, settings={**self._plan.settings, **_small_buffers(self._plan)})
        self._agent = build_agent(dataclasses.replace(config, parallels=1), small, self._envs)
        checkpoints.read_for_acting(folder, self._agent)
        self._actor = Actor(self._agent, self._plan)
        self._game: Game = self._envs.envs[0].env.game

    def actions_for_vector(self, game: Game) -> Any:
        """What to do where this game stands, in the form that XuanCe's vector environments take."""
        return self._actor.act(game.current, game.masks() if self._plan.masked else None)

    def begin_episode(self) -> None:
        self._actor.forget()

    def select_action(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Of one agent (`info["agent"]` says which), or of all that `observation` has an entry for.

        Agents with memories, and those that act together, are asked all at once; `info["episode_start"]` makes them
        forget the last episode.
        """
        if info.get("episode_start"):
            self.begin_episode()
        if not self._plan.entry.is_multi_agent:
            seen = {AGENT: self._vector(AGENT, observation)}
            return from_unit(self._actor.act(seen, None), self._game.action_spaces[AGENT])
        several = isinstance(observation, Mapping) and bool(observation) and set(observation) <= set(self._plan.agents)
        if self._acts_together and not (several and len(observation) == len(self._plan.agents)):
            agents = ", ".join(self._plan.agents)
            raise ValueError(f"observation: allowed: an object with what each of {agents} sees (they act together)")
        if several:
            masks = info.get("action_mask", {})
            return self._of_team(observation, masks)
        agent = info.get("agent")
        if agent not in self._plan.agents:
            raise ValueError(f"info.agent: got {agent!r}, allowed: one of {', '.join(self._plan.agents)}")
        masks = {agent: info["action_mask"]} if "action_mask" in info else {}
        return self._of_team({agent: observation}, masks)[agent]

    @property
    def _acts_together(self) -> bool:
        return self._plan.remembers or self._plan.entry.acting in ("talking", "jointly", "mean field")

    def _of_team(self, observations: Mapping[str, Any], masks: Mapping[str, Any]) -> dict[str, Any]:
        """Who is not asked sees nothing, which changes nothing for the others: each acts on what it sees itself."""
        self._game.can_act = dict.fromkeys(self._plan.agents, True)
        seen = {agent: np.zeros(space.shape, np.float32) for agent, space in self._plan.observation_spaces.items()}
        seen |= {agent: self._vector(agent, observation) for agent, observation in observations.items()}
        allowed = None
        if self._plan.masked:
            allowed = self._game.masks() | {agent: np.asarray(mask, np.bool_) for agent, mask in masks.items()}
        actions = self._actor.act(seen, allowed)
        return {agent: self._game.fit(agent, actions[agent]) for agent in observations}

    def _vector(self, agent: str, observation: Any) -> Any:
        seen = self._game.see(agent, observation)
        space = self._plan.observation_spaces[agent]
        if seen.shape != space.shape:
            raise ValueError(f"observation: got {seen.size} numbers, allowed: {math.prod(space.shape)} for {agent}")
        return seen


def _small_buffers(plan: Plan) -> dict[str, int]:
    wanted = {"buffer_size": 1, "horizon_size": 1, "batch_size": 1, "n_minibatch": 1}
    return {name: value for name, value in wanted.items() if name in plan.settings}
