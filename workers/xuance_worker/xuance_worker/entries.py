"""Which of XuanCe's algorithms are offered, what each asks of an environment, and which are not offered and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["discrete", "box"]
# never: XuanCe has no recurrent form that works; by choice: the hyperparameter use_rnn; if shared: the same, where all
# agents share one network; always.
Memory = Literal["never", "by choice", "if shared", "always"]
# How its agents act. alone: each on what it sees itself; mean field: also on what the others did on average;
# talking: on what the others tell; jointly: their actions are chosen together.
Acting = Literal["alone", "mean field", "talking", "jointly"]


@dataclass(frozen=True)
class Entry:
    """One algorithm: XuanCe's names for it, and what it asks of the environment."""

    title: str
    description: str
    agent: str
    defaults: Mapping[Kind, str]  # XuanCe's yaml for each kind of action space that it takes
    settings: Mapping[str, Any] = field(default_factory=dict)  # in the place of the yaml's
    policies: Mapping[Kind, str] = field(default_factory=dict)  # where the yaml names that of another kind
    shown: frozenset[str] = frozenset()  # settings that only this algorithm uses
    is_multi_agent: bool = True
    is_on_policy: bool = False
    memory: Memory = "never"
    acting: Acting = "alone"
    must_share: bool = False  # parameters, among agents of like spaces
    must_be_alike: Literal["", "spaces", "action spaces"] = ""  # of all agents

    @property
    def action_kinds(self) -> tuple[Kind, ...]:
        return tuple(self.defaults)


def _spread(folder: str, *kinds: Kind) -> dict[Kind, str]:
    return dict.fromkeys(kinds, f"{folder}/mpe/simple_spread_v3.yaml")


def _classic(folder: str, *kinds: Kind) -> dict[Kind, str]:
    tasks: dict[Kind, str] = {"discrete": "CartPole-v1", "box": "Pendulum-v1"}
    return {kind: f"{folder}/classic_control/{tasks[kind]}.yaml" for kind in kinds}


def _team(title: str, description: str, folder: str, *kinds: Kind, agent: str = "", **more: Any) -> Entry:
    return Entry(title, description, agent or title, _spread(folder, *kinds), **more)


def _solo(title: str, description: str, folder: str, *kinds: Kind, agent: str = "", **more: Any) -> Entry:
    return Entry(title, description, agent or title, _classic(folder, *kinds), is_multi_agent=False, **more)


BOTH_ACTORS: Mapping[Kind, str] = {"discrete": "Categorical_MAAC_Policy", "box": "Gaussian_MAAC_Policy"}
ROLLOUTS: Mapping[str, Any] = {"is_on_policy": True, "memory": "if shared"}
TALKING: Mapping[str, Any] = {"is_on_policy": True, "memory": "always", "acting": "talking"}
# What the networks of agents that talk are made of.
MESSAGES = frozenset(["fc_hidden_sizes", "recurrent_hidden_size"])
REPLAY: Mapping[str, Any] = {"memory": "by choice"}

TEAMS: Mapping[str, Entry] = {
    "mappo": _team(
        "MAPPO",
        "PPO for teams: each agent acts on what it sees, the critic sees what all see.",
        "mappo",
        *("discrete", "box"),
        policies=BOTH_ACTORS,
        **ROLLOUTS,
    ),
    "ippo": _team(
        "IPPO",
        "PPO for each agent by itself: actor and critic see what the agent sees.",
        "ippo",
        *("discrete", "box"),
        policies=BOTH_ACTORS,
        **ROLLOUTS,
    ),
    "qmix": _team(
        "QMIX",
        "The team's value is a monotone mixture of the agents' values, its weights made from the global state.",
        "qmix",
        "discrete",
        **REPLAY,
    ),
    "vdn": _team("VDN", "The team's value is the sum of the agents' values.", "vdn", "discrete", **REPLAY),
    "iql": _team("IQL", "Q-learning for each agent by itself.", "iql", "discrete", **REPLAY),
    "maddpg": _team("MADDPG", "Deterministic policies; the critics see what all agents see and do.", "maddpg", "box"),
    "coma": _team(
        "COMA",
        "Policy gradient with a counterfactual baseline: what would have been, had this agent alone acted otherwise.",
        "coma",
        "discrete",
        must_be_alike="action spaces",
        is_on_policy=True,
    ),
    "iddpg": _team("IDDPG", "DDPG for each agent by itself.", "iddpg", "box"),
    "masac": _team("MASAC", "Soft actor-critic with critics that see all.", "masac", "box", **REPLAY),
    "isac": _team("ISAC", "Soft actor-critic for each agent by itself.", "isac", "box"),
    "matd3": _team("MATD3", "MADDPG with twin critics and delayed actors.", "matd3", "box"),
    "itd3": _team("ITD3", "TD3 for each agent by itself.", "itd3", "box"),
    "owqmix": _team(
        "OWQMIX",
        "QMIX that gives more weight to joint actions whose value was underestimated.",
        "wqmix",
        "discrete",
        **REPLAY,
    ),
    "qtran": _team(
        "QTRAN",
        "The team's value is learned freely, the agents' values are made to rank joint actions as it does.",
        "qtran",
        "discrete",
        agent="QTRAN_base",
        memory="if shared",
    ),
    "qtran_alt": _team(
        "QTRAN-alt",
        "QTRAN that ranks each agent's actions with the others' as they are.",
        "qtran",
        "discrete",
        agent="QTRAN_alt",
        must_share=True,
    ),
    "dcg": _team(
        "DCG",
        "Values of agents and of pairs of agents; joint actions are found by passing messages along the pairs.",
        "dcg",
        "discrete",
        must_be_alike="action spaces",
        acting="jointly",
        **REPLAY,
    ),
    "mfq": _team(
        "MFQ",
        "Q-learning for crowds: each agent's value depends on what the others did on average.",
        "mfq",
        "discrete",
        acting="mean field",
        **REPLAY,
    ),
    "mfac": _team(
        "MFAC",
        "Actor-critic for crowds: the critic sees what the others did on average.",
        "mfac",
        "discrete",
        acting="mean field",
        **ROLLOUTS,
    ),
    "iac": _team(
        "IAC",
        "Advantage actor-critic for each agent by itself.",
        "iac",
        *("discrete", "box"),
        policies=BOTH_ACTORS,
        **ROLLOUTS,
    ),
    "vdac": _team(
        "VDAC",
        "Actor-critic whose team value is the sum, or a monotone mixture, of the agents' values.",
        "vdac",
        *("discrete", "box"),
        policies=BOTH_ACTORS,
        shown=frozenset(["mixer"]),
        **ROLLOUTS,
    ),
    "commnet": _team(
        "CommNet",
        "Agents with memories that tell each other the mean of what they have in mind.",
        "commnet",
        "discrete",
        must_share=True,  # XuanCe's network for what they tell each other has one size
        must_be_alike="spaces",
        shown=MESSAGES,
        **TALKING,
    ),
    "ic3net": _team(
        "IC3Net",
        "CommNet whose agents learn when to say something.",
        "ic3net",
        "discrete",
        shown=MESSAGES,
        **TALKING,
    ),
    "tarmac": _team(
        "TarMAC",
        "Agents with memories that choose by attention whom to listen to.",
        "tarmac",
        "discrete",
        shown=MESSAGES,
        **TALKING,
    ),
}

SOLOS: Mapping[str, Entry] = {
    "ppo": _solo("PPO", "Proximal policy optimization, one agent.", "ppo", "discrete", "box", is_on_policy=True),
    "ppo_kl": _solo(
        "PPO-KL",
        "PPO that is kept near its old policy by a penalty in place of a clip, one agent.",
        "ppo",
        *("discrete", "box"),
        agent="PPO_KL",
        settings={"learner": "PPOKL_Learner"},
        shown=frozenset(["target_kl", "kl_coef"]),
        is_on_policy=True,
    ),
    "ppg": _solo(
        "PPG",
        "PPO with phases in which the policy's network also learns values, one agent.",
        "ppg",
        *("discrete", "box"),
        is_on_policy=True,
    ),
    "pg": _solo("PG", "Policy gradient without a critic, one agent.", "pg", "discrete", "box", is_on_policy=True),
    "a2c": _solo("A2C", "Advantage actor-critic, one agent.", "a2c", "discrete", "box", is_on_policy=True),
    "dqn": _solo("DQN", "Deep Q-learning, one agent.", "dqn", "discrete"),
    "ddqn": _solo("Double DQN", "One agent.", "ddqn", "discrete", agent="DDQN"),
    "dueldqn": _solo("Dueling DQN", "One agent.", "dueldqn", "discrete", agent="Duel_DQN"),
    "noisydqn": _solo(
        "Noisy DQN", "Explores by noise in its weights, one agent.", "noisydqn", "discrete", agent="NoisyDQN"
    ),
    "perdqn": _solo("PER DQN", "Replays what surprised it most, one agent.", "perdqn", "discrete", agent="PerDQN"),
    "c51": _solo("C51", "Learns the distribution of returns, one agent.", "c51", "discrete", agent="C51DQN"),
    "qrdqn": _solo("QR-DQN", "Learns quantiles of returns, one agent.", "qrdqn", "discrete", agent="QRDQN"),
    "drqn": _solo(
        "DRQN",
        "Deep Q-learning with a memory, one agent.",
        "drqn",
        "discrete",
        shown=frozenset(["rnn", "recurrent_hidden_size", "recurrent_layer_N"]),
        memory="always",
    ),
    "sac": _solo("SAC", "Soft actor-critic, one agent.", "sac", "box"),
    "ddpg": _solo("DDPG", "Deterministic policy gradient, one agent.", "ddpg", "box"),
    "td3": _solo("TD3", "DDPG with twin critics, one agent.", "td3", "box"),
}

ENTRIES: Mapping[str, Entry] = {**TEAMS, **SOLOS}

NOT_OFFERED: Mapping[str, str] = {
    "cwqmix": "in XuanCe 1.4.4, its first update fails",
    "dcg_s": "in XuanCe 1.4.4, its network cannot be built",
    "dreamerv2": "it does not run in XuanCe 1.4.4",
    "dreamerv3": "it does not run in XuanCe 1.4.4",
    "td3bc": "it learns from recorded steps, and there are none here",
    **dict.fromkeys(("curl", "spr", "drq"), "it needs torchvision, which this worker does without"),
    **dict.fromkeys(("pdqn", "mpdqn", "spdqn"), "no environment here asks for a choice with numbers to it"),
}
