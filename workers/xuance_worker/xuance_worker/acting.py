"""How trained agents are asked for their best actions, and what they carry from step to step meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xuance_worker.games import AGENT
from xuance_worker.plan import Plan


class Actor:
    """Asks the agents of one game. They act without exploring, as far as XuanCe lets them."""

    def __init__(self, agent: Any, plan: Plan) -> None:
        self._agent = agent
        self._plan = plan
        self.forget()

    def forget(self) -> None:
        """Before an episode."""
        self._hidden: Any = None
        self._means: Any = None

    def act(self, seen: Mapping[str, Any], masks: Mapping[str, Any] | None) -> Any:
        """The action of the only agent, or an entry for each, as the vector environments take them."""
        if self._plan.entry.is_multi_agent:
            return self._act_as_team(seen, masks)
        observations = self._agent._process_observation(np.stack([seen[AGENT]]))
        return self._act_alone(observations)[0]

    def _act_alone(self, observations: Any) -> Any:
        agent, entry = self._agent, self._plan.entry
        if entry.memory == "always":
            if self._hidden is None:
                self._hidden = agent.policy.init_hidden(1)
            answer = agent.get_actions(observations, 0.0, self._hidden)
            self._hidden = answer["rnn_hidden_next"]
            return answer["actions"]
        if entry.agent == "NoisyDQN":
            agent.noise_scale = 0.0
            return agent.get_actions(observations)
        greedy = {"deterministic": True} if entry.is_on_policy else {"test_mode": True}
        return agent.get_actions(observations, **greedy)["actions"]

    def _act_as_team(self, seen: Mapping[str, Any], masks: Mapping[str, Any] | None) -> Any:
        agent, entry = self._agent, self._plan.entry
        how: dict[str, Any] = {"test_mode": True, **({"deterministic": True} if entry.is_on_policy else {})}
        everybody = dict.fromkeys(self._plan.agents, True)
        if entry.acting == "talking":
            seen, how["info"] = agent.pad_observation(dict(seen)), [{"agent_mask": everybody}]
        if entry.acting == "mean field":
            if self._means is None:
                self._means = {name: np.zeros(agent.n_actions_max) for name in self._plan.agents}
            how |= {"agent_mask": [everybody], "act_mean_dict": [self._means]}
        if self._plan.remembers:
            if self._hidden is None:
                blank = agent.init_rnn_hidden(1)
                self._hidden = blank[0] if entry.is_on_policy else blank
            how["rnn_hidden_actor" if entry.is_on_policy else "rnn_hidden"] = self._hidden
        answer = agent.get_actions(obs_dict=[seen], avail_actions_dict=None if masks is None else [masks], **how)
        if self._plan.remembers:
            self._hidden = answer["rnn_hidden_actor" if entry.is_on_policy else "hidden_state"]
        if entry.acting == "mean field":
            self._means = answer["actions_mean"][0]
        return answer["actions"][0]
