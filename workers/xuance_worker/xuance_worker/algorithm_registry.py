"""Which of XuanCe's algorithms are offered, and their hyperparameters, read from XuanCe's own yaml files.

Needs neither torch nor XuanCe to be imported: `--describe` and the checks of a config take these answers.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from mosaic.worker import Algorithm
from mosaic.worker.schema import DIALECT

Kind = Literal["discrete", "box"]

# What the worker decides itself, from the config or from the environment.
OURS = frozenset(
    [
        "agent",
        "env_name",
        "env_id",
        "env_seed",
        "vectorize",
        "policy",
        "learner",
        "runner",
        "representation",
        "seed",
        "parallels",
        "running_steps",
        "eval_interval",
        "test_episode",
        "log_dir",
        "model_dir",
        "render",
        "render_mode",
        "fps",
        "device",
        "dl_toolbox",
        "project_name",
        "logger",
        "wandb_user_name",
        "distributed_training",
        "master_port",
        "continuous_action",
        "use_parameter_sharing",
        "use_actions_mask",
        "clip_type",
        "use_rnn",
        "rnn",
        "N_recurrent_layers",
        "recurrent_hidden_size",
        "dropout",
        "target_kl",
        "kl_coef",
        "decay_step_greedy",
        "mixer",
        "alpha_attention",
        "episode_length",
        "test_mode",
        "fc_hidden_sizes",
        "representation_critic",
    ]
)
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "elu")
SHARES = frozenset(
    ["gamma", "gae_lambda", "start_greedy", "end_greedy", "tau", "end_factor_lr_decay", "PER_alpha", "PER_beta0"]
)
COUNTS = frozenset(
    [
        "buffer_size",
        "horizon_size",
        "batch_size",
        "n_epochs",
        "n_minibatch",
        "training_frequency",
        "sync_frequency",
        "hidden_dim_mixing_net",
        "hidden_dim_hyper_net",
        "policy_nepoch",
        "value_nepoch",
        "aux_nepoch",
        "atom_num",
        "quantile_num",
        "actor_update_delay",
    ]
)
MAY_BE_NEGATIVE = frozenset(("v_min", "target_entropy"))
TEXTS: Mapping[str, tuple[str, ...]] = {
    "activation": ACTIVATIONS,
    "activation_action": ACTIVATIONS,
    "normalize": ("LayerNorm", "BatchNorm"),
    "initialize": ("orthogonal",),
}


@dataclass(frozen=True)
class Entry:
    """One algorithm: XuanCe's names for it, and what it asks of the environment."""

    title: str
    description: str
    agent: str
    defaults: Mapping[Kind, str]  # XuanCe's yaml for each kind of action space that it takes
    policies: Mapping[Kind, str] = field(default_factory=dict)  # where the yaml names that of another kind
    is_multi_agent: bool = True
    is_on_policy: bool = False

    @property
    def action_kinds(self) -> tuple[Kind, ...]:
        return tuple(self.defaults)


def _spread(folder: str, *kinds: Kind) -> dict[Kind, str]:
    return dict.fromkeys(kinds, f"{folder}/mpe/simple_spread_v3.yaml")


def _classic(folder: str, *kinds: Kind) -> dict[Kind, str]:
    tasks: dict[Kind, str] = {"discrete": "CartPole-v1", "box": "Pendulum-v1"}
    return {kind: f"{folder}/classic_control/{tasks[kind]}.yaml" for kind in kinds}


BOTH_ACTORS: Mapping[Kind, str] = {"discrete": "Categorical_MAAC_Policy", "box": "Gaussian_MAAC_Policy"}

ENTRIES: Mapping[str, Entry] = {
    "mappo": Entry(
        "MAPPO",
        "PPO for teams: each agent acts on what it sees, the critic sees what all see.",
        "MAPPO",
        _spread("mappo", "discrete", "box"),
        BOTH_ACTORS,
        is_on_policy=True,
    ),
    "ippo": Entry(
        "IPPO",
        "PPO for each agent by itself: actor and critic see what the agent sees.",
        "IPPO",
        _spread("ippo", "discrete", "box"),
        BOTH_ACTORS,
        is_on_policy=True,
    ),
    "qmix": Entry(
        "QMIX",
        "The team's value is a monotone mixture of the agents' values, its weights made from the global state.",
        "QMIX",
        _spread("qmix", "discrete"),
    ),
    "vdn": Entry("VDN", "The team's value is the sum of the agents' values.", "VDN", _spread("vdn", "discrete")),
    "iql": Entry("IQL", "Q-learning for each agent by itself.", "IQL", _spread("iql", "discrete")),
    "maddpg": Entry(
        "MADDPG",
        "Deterministic policies; the critics see what all agents see and do.",
        "MADDPG",
        _spread("maddpg", "box"),
    ),
    "coma": Entry(
        "COMA",
        "Policy gradient with a counterfactual baseline: what would have been, had this agent alone acted otherwise.",
        "COMA",
        _spread("coma", "discrete"),
        is_on_policy=True,
    ),
    "iddpg": Entry("IDDPG", "DDPG for each agent by itself.", "IDDPG", _spread("iddpg", "box")),
    "masac": Entry("MASAC", "Soft actor-critic with critics that see all.", "MASAC", _spread("masac", "box")),
    "isac": Entry("ISAC", "Soft actor-critic for each agent by itself.", "ISAC", _spread("isac", "box")),
    "matd3": Entry("MATD3", "MADDPG with twin critics and delayed actors.", "MATD3", _spread("matd3", "box")),
    "itd3": Entry("ITD3", "TD3 for each agent by itself.", "ITD3", _spread("itd3", "box")),
    "owqmix": Entry(
        "OWQMIX",
        "QMIX that gives more weight to joint actions whose value was underestimated.",
        "OWQMIX",
        _spread("wqmix", "discrete"),
    ),
    "ppo": Entry(
        "PPO",
        "Proximal policy optimization, one agent.",
        "PPO",
        _classic("ppo", "discrete", "box"),
        is_multi_agent=False,
        is_on_policy=True,
    ),
    "a2c": Entry(
        "A2C",
        "Advantage actor-critic, one agent.",
        "A2C",
        _classic("a2c", "discrete", "box"),
        is_multi_agent=False,
        is_on_policy=True,
    ),
    "dqn": Entry("DQN", "Deep Q-learning, one agent.", "DQN", _classic("dqn", "discrete"), is_multi_agent=False),
    "ddqn": Entry("Double DQN", "One agent.", "DDQN", _classic("ddqn", "discrete"), is_multi_agent=False),
    "dueldqn": Entry("Dueling DQN", "One agent.", "Duel_DQN", _classic("dueldqn", "discrete"), is_multi_agent=False),
    "sac": Entry("SAC", "Soft actor-critic, one agent.", "SAC", _classic("sac", "box"), is_multi_agent=False),
    "ddpg": Entry(
        "DDPG", "Deterministic policy gradient, one agent.", "DDPG", _classic("ddpg", "box"), is_multi_agent=False
    ),
    "td3": Entry("TD3", "DDPG with twin critics, one agent.", "TD3", _classic("td3", "box"), is_multi_agent=False),
}


@cache
def configs_folder() -> Path:
    """Where XuanCe keeps its yaml files. Finding a package does not import it."""
    spec = importlib.util.find_spec("xuance")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("XuanCe is not installed here: pip install --no-deps xuance==1.4.4")
    return Path(spec.origin).parent / "configs"


@cache
def _read(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A yaml file of XuanCe: its values, and the comments behind them."""
    text = (configs_folder() / name).read_text(encoding="utf-8")
    comments = {
        found["name"]: found["comment"].strip()
        for found in re.finditer(r"^(?P<name>\w+) *:[^#\n]*#(?P<comment>.*)$", text, re.MULTILINE)
    }
    return yaml.safe_load(text), comments


def defaults(entry: Entry, kind: Kind) -> dict[str, Any]:
    """All that XuanCe sets for an algorithm, basics included."""
    return {**_read("basic.yaml")[0], **_read(entry.defaults[kind])[0]}


@cache
def params_schema(name: str) -> dict[str, Any]:
    """The hyperparameters of an algorithm as JSON Schema; defaults are those for discrete actions first."""
    entry = ENTRIES[name]
    properties: dict[str, Any] = {}
    for kind in entry.action_kinds:
        _, basic_comments = _read("basic.yaml")
        values, comments = _read(entry.defaults[kind])
        for key, value in {**_shared_by_networks(), **values}.items():
            if key not in OURS and key not in properties:
                comment = comments.get(key) or basic_comments.get(key, "")
                properties[key] = _property(key, value, comment)
    if "start_greedy" in properties:
        properties["decay_step_greedy"] = {
            "type": "integer",
            "minimum": 1,
            "description": "Steps over which epsilon falls from start to end; not given: half of the budget",
        }
    return {
        "$schema": DIALECT,
        "version": 1,
        "title": f"Hyperparameters of {entry.title}",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _shared_by_networks() -> dict[str, Any]:
    values = _read("basic.yaml")[0]
    return {key: values[key] for key in ("activation", "representation_hidden_size")}


def _property(name: str, value: Any, comment: str) -> dict[str, Any]:
    schema: dict[str, Any]
    match value:
        case bool():
            schema = {"type": "boolean"}
        case int() | float():
            schema = {"type": "integer" if _is_count(name, value) else "number"}
            if name not in MAY_BE_NEGATIVE:
                schema["minimum"] = 1 if name in COUNTS else 0
            if name in SHARES:
                schema["maximum"] = 1
        case str():
            schema = {"enum": list(TEXTS.get(name, (value,)))}
        case list():
            schema = {"type": "array", "items": {"type": "integer", "minimum": 1}}
        case None:
            schema = {"type": ["number", "null"]}
        case _:
            raise ValueError(f"XuanCe's default {name}={value!r} is of a kind that has no form here")
    return {**schema, "default": value, **({"description": comment} if comment else {})}


def _is_count(name: str, value: float) -> bool:
    """YAML says 10 where 10.0 is meant: only what counts something is a whole number."""
    if name in COUNTS:
        return True
    return isinstance(value, int) and bool(re.search(r"size|step|freq|epoch|start_training|^n_|dim|num|delay", name))


def described() -> dict[str, Algorithm]:
    """All algorithms as `--describe` tells them."""
    return {
        name: Algorithm(
            entry.title,
            params_schema(name),
            entry.description,
            {
                "paradigm": "multi_agent" if entry.is_multi_agent else "single_agent",
                "action_spaces": list(entry.action_kinds),
                "on_policy": entry.is_on_policy,
            },
        )
        for name, entry in ENTRIES.items()
    }
