"""Whether an algorithm and an environment fit together: all that a schema cannot say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces

from mosaic.worker import CheckpointError, ConfigError, refuse
from mosaic.worker.checkpoints import read_card
from xuance_worker import CAPABILITIES
from xuance_worker.algorithm_registry import DECAYS, defaults
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.entries import ENTRIES, Entry, Kind
from xuance_worker.environments import make_game
from xuance_worker.games import Game

# Those whose networks, buffers and inputs upstream takes images through.
SEES_IMAGES = (
    *("mappo", "ippo", "qmix", "owqmix", "vdn", "iql", "isac", "iddpg", "itd3"),
    *("ppo", "a2c", "dqn", "ddqn", "dueldqn", "sac", "ddpg", "td3"),
)
# XuanCe's own settings for Atari. (Its `Basic_CNN` forgets where in the image a thing was seen.)
CNN: Mapping[str, Any] = {
    "representation": "AC_CNN_Atari",
    "filters": [32, 64, 64],
    "kernels": [8, 4, 3],
    "strides": [4, 2, 1],
    "fc_hidden_sizes": [256],
    "use_cnn": True,
}
# XuanCe's own settings for networks with a memory, where its yaml leaves some out.
RECURRENT: Mapping[str, Any] = {
    "rnn": "GRU",
    "N_recurrent_layers": 1,
    "fc_hidden_sizes": [64],
    "recurrent_hidden_size": 64,
    "dropout": 0,
}
# So many steps are taken for an episode in translating from a buffer's steps to its episodes.
TYPICAL_EPISODE = 50
LEARNING_RATES = ("learning_rate", "learning_rate_actor", "learning_rate_critic")


@dataclass(frozen=True)
class Plan:
    """How this algorithm will be run on this environment."""

    entry: Entry
    kind: Kind
    agents: tuple[str, ...]
    observation_spaces: Mapping[str, spaces.Box]
    action_spaces: Mapping[str, spaces.Space[Any]]
    masked: bool
    sharing: bool
    sees_images: bool
    settings: Mapping[str, Any]  # XuanCe's settings, our changes included

    @property
    def remembers(self) -> bool:
        """Do its networks carry something from step to step?"""
        return bool(self.settings.get("use_rnn"))


def make_plan(config: XuanCeWorkerConfig) -> Plan:
    """Check everything at once on an environment that is made and closed again."""
    entry = ENTRIES[config.algorithm]
    game = make_game(config, continuous="discrete" not in entry.action_kinds)
    try:
        kind = _action_kind(config, entry, game)
        _check_agents(config, entry, game)
        _check_alike(config, entry, game)
        _check_images(config, entry, game)
        sharing = _sharing(config, entry, game)
        for index, stage in enumerate(config.curriculum):
            _check_stage(config, index, stage.env_id, stage.env_kwargs, game, kind)
        return Plan(
            entry,
            kind,
            tuple(game.agents),
            dict(game.observation_spaces),
            dict(game.action_spaces),
            game.masked and entry.is_multi_agent,
            sharing,
            game.sees_images,
            _settings(config, entry, kind, game, sharing),
        )
    finally:
        game.close()


def _action_kind(config: XuanCeWorkerConfig, entry: Entry, game: Game) -> Kind:
    found: set[str] = {_kind_of(space) for space in game.action_spaces.values()}
    kind = found.pop()
    if found or kind not in entry.action_kinds:
        given = ", ".join(dict.fromkeys(str(space) for space in game.action_spaces.values()))
        allowed = f"an environment with {' or '.join(entry.action_kinds)} actions for {entry.title} (its are {given})"
        raise ConfigError(refuse("env_id", config.env_id, allowed))
    if kind == "box" and game.masked:
        raise ConfigError(refuse("env_id", config.env_id, "an environment whose agents act at once"))
    return "box" if kind == "box" else "discrete"


def _kind_of(space: spaces.Space[Any]) -> str:
    match space:
        case spaces.Discrete(start=0):
            return "discrete"
        case spaces.Box():
            return "box"
    return str(space)


def _check_agents(config: XuanCeWorkerConfig, entry: Entry, game: Game) -> None:
    several = len(game.agents) > 1
    if entry.is_multi_agent and not several:
        allowed = f"an environment of several agents for {entry.title} ({config.env_id} has one)"
        raise ConfigError(refuse("env_id", config.env_id, allowed))
    if several and not entry.is_multi_agent:
        allowed = f"an environment of one agent for {entry.title} ({config.env_id} has {len(game.agents)})"
        raise ConfigError(refuse("env_id", config.env_id, allowed))


def _alike(spaces_of: Mapping[str, spaces.Space[Any]]) -> bool:
    return len({str(space) for space in spaces_of.values()}) == 1


def _check_alike(config: XuanCeWorkerConfig, entry: Entry, game: Game) -> None:
    fits = {
        "": True,
        "action spaces": _alike(game.action_spaces),
        "spaces": _alike(game.action_spaces) and _alike(game.observation_spaces),
    }
    if not fits[entry.must_be_alike]:
        allowed = f"an environment of agents with like {entry.must_be_alike} for {entry.title}"
        raise ConfigError(refuse("env_id", config.env_id, allowed))


def _check_images(config: XuanCeWorkerConfig, entry: Entry, game: Game) -> None:
    if game.sees_images and config.algorithm not in SEES_IMAGES:
        allowed = f"an environment whose observations are vectors for {entry.title} (images: {', '.join(SEES_IMAGES)})"
        raise ConfigError(refuse("env_id", config.env_id, allowed))


def _sharing(config: XuanCeWorkerConfig, entry: Entry, game: Game) -> bool:
    alike = _alike(game.observation_spaces) and _alike(game.action_spaces)
    if config.parameter_sharing and not alike:
        observed = ", ".join(
            f"{agent} sees {math.prod(space.shape)}" for agent, space in game.observation_spaces.items()
        )
        allowed = f"false: the agents of {config.env_id} have unlike spaces ({observed} numbers)"
        raise ConfigError(refuse("parameter_sharing", True, allowed))
    if entry.must_share and not (alike and config.parameter_sharing is not False):
        allowed = f"true for {entry.title}, whose agents must have like spaces and share one network"
        raise ConfigError(refuse("parameter_sharing", config.parameter_sharing, allowed))
    return entry.is_multi_agent and (alike if config.parameter_sharing is None else config.parameter_sharing)


def _check_stage(
    config: XuanCeWorkerConfig, index: int, env_id: str, env_kwargs: dict[str, Any], game: Game, kind: Kind
) -> None:
    other = make_game(config, env_id=env_id, env_kwargs=env_kwargs, continuous=kind == "box")
    other.close()
    for what, one, two in (
        ("agents", game.agents, other.agents),
        ("observation spaces", game.observation_spaces, other.observation_spaces),
        ("action spaces", game.action_spaces, other.action_spaces),
    ):
        if one != two:
            allowed = f"an environment with the {what} of {config.env_id} ({_short(one)}; this one has {_short(two)})"
            raise ConfigError(refuse(f"curriculum[{index}].env_id", env_id or config.env_id, allowed))


def _short(value: Any) -> str:
    parts = value.values() if isinstance(value, Mapping) else value
    return ", ".join(dict.fromkeys(str(part) for part in parts))


def _settings(config: XuanCeWorkerConfig, entry: Entry, kind: Kind, game: Game, sharing: bool) -> dict[str, Any]:
    """XuanCe's defaults, then ours where the budget or the environment asks for others, then the user's."""
    values = defaults(entry, kind)
    if kind in entry.policies:
        values["policy"] = entry.policies[kind]
    for _, name, _ in DECAYS:
        if name in values:
            values[name] = max(1, config.total_timesteps // 2)
    if entry.is_multi_agent and kind == "box":
        low = min(float(space.low.min()) for space in game.action_spaces.values() if isinstance(space, spaces.Box))
        values["activation_action"] = "sigmoid" if low >= 0 else "tanh"
    if config.algorithm == "mappo" and not _alike(game.observation_spaces):
        # Upstream's joint observation of unlike agents does not fit its critics.
        values["use_global_state"] = True
    if game.sees_images:
        values.update(CNN)
    values.update(config.hyperparameters)
    if config.learning_rate is not None:
        names = [name for name in values if name in LEARNING_RATES and name not in config.hyperparameters]
        values.update(dict.fromkeys(names, config.learning_rate))
    values["use_rnn"] = entry.is_multi_agent and (entry.memory == "always" or bool(values.get("use_rnn")))
    if values["use_rnn"]:
        if entry.memory == "if shared" and not sharing:
            allowed = f"false where the agents of {entry.title} do not share one network"
            raise ConfigError(refuse("hyperparameters.use_rnn", True, allowed))
        _remember(config, values, game)
    _fit_buffer(config, entry, values)
    return values


def _remember(config: XuanCeWorkerConfig, values: dict[str, Any], game: Game) -> None:
    """Networks with a memory learn from whole episodes: buffers and batches count these."""
    if game.sees_images:
        raise ConfigError(refuse("hyperparameters.use_rnn", True, f"false: {config.env_id} shows images"))
    values["representation"] = "Basic_RNN"
    values.update({name: value for name, value in RECURRENT.items() if name not in values})
    if "use_rnn" in config.hyperparameters:
        for name in ("buffer_size", "batch_size"):
            if name in values and name not in config.hyperparameters:
                values[name] = max(1, round(values[name] / min(game.limit, TYPICAL_EPISODE)))


def _fit_buffer(config: XuanCeWorkerConfig, entry: Entry, values: dict[str, Any]) -> None:
    """Buffers are shared out among the environments, and an on-policy one is also cut into minibatches."""
    size = config.batch_size
    if not entry.is_on_policy:
        if size is not None:
            values["batch_size"] = size
        if "buffer_size" not in config.hyperparameters:
            values["buffer_size"] = -(-values["buffer_size"] // config.parallels) * config.parallels
        _check_divisible(config, values["buffer_size"], config.parallels, "parallels")
        if config.algorithm == "perdqn" and values["batch_size"] < config.parallels:
            allowed = f"at least parallels ({config.parallels}): as much is drawn from each environment's steps"
            raise ConfigError(refuse("batch_size", values["batch_size"], allowed))
        return
    if "horizon_size" in values:  # counted for each environment: XuanCe makes the buffer as long as it takes
        if size is not None:
            total = values["horizon_size"] * config.parallels
            _check_minibatch(total, size, "horizon_size * parallels")
            values["n_minibatch"] = total // size
        return
    if "buffer_size" not in config.hyperparameters:
        step = config.parallels if size is None else math.lcm(config.parallels, size)
        values["buffer_size"] = -(-values["buffer_size"] // step) * step
    _check_divisible(config, values["buffer_size"], config.parallels, "parallels")
    if size is not None:
        _check_minibatch(values["buffer_size"], size, "hyperparameters.buffer_size")
        values["n_minibatch"] = values["buffer_size"] // size


def _check_divisible(config: XuanCeWorkerConfig, buffer: int, by: int, name: str) -> None:
    if buffer % by:
        allowed = f"a multiple of {name} ({by}), such as {-(-buffer // by) * by}"
        raise ConfigError(refuse("hyperparameters.buffer_size", buffer, allowed))


def _check_minibatch(buffer: int, size: int, name: str) -> None:
    if buffer % size:
        raise ConfigError(refuse("batch_size", size, f"a number that divides {name} ({buffer})"))


def check_card(folder: Path, config: XuanCeWorkerConfig, plan: Plan) -> None:
    """Is this a checkpoint for this config? Known from its card alone."""
    card = read_card(folder)
    for what, saved, wanted in (
        ("worker", card.worker, CAPABILITIES.worker_type),
        ("algorithm", card.algorithm, config.algorithm),
        ("agents", card.agents, list(plan.agents)),
        ("parameter_sharing", card.extra.get("parameter_sharing"), plan.sharing),
    ):
        if saved != wanted:
            raise CheckpointError(f"checkpoint {folder.name}: its {what} is {saved!r}, this run's is {wanted!r}")
