"""The config of a Ray run. Everything else (validation, flags, forms, docs) is derived from these dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

from msgspec import Meta


class EnvironmentFamily(Enum):
    GYMNASIUM = "gymnasium"
    SISL = "sisl"
    CLASSIC = "classic"
    BUTTERFLY = "butterfly"
    MPE = "mpe"


class PettingZooAPIType(Enum):
    AEC = "AEC"
    PARALLEL = "PARALLEL"


class PolicyConfiguration(Enum):
    PARAMETER_SHARING = "PARAMETER_SHARING"
    INDEPENDENT = "INDEPENDENT"
    SELF_PLAY = "SELF_PLAY"
    SHARED_VALUE_FUNCTION = "SHARED_VALUE_FUNCTION"
    MAPPING = "MAPPING"


class PolicyKind(Enum):
    TRAINED = "TRAINED"
    FROZEN = "FROZEN"
    RANDOM = "RANDOM"
    SCRIPTED = "SCRIPTED"


class Matchmaking(Enum):
    UNIFORM = "UNIFORM"
    LATEST = "LATEST"
    PRIORITISED = "PRIORITISED"


@dataclass(frozen=True)
class WrapperConfig:
    """How observations are made fit for a network. Vectors become float32, images small and gray."""

    pad_observations: Annotated[
        bool, Meta(description="Fill shorter observations with zeros, so that unlike agents can share a policy")
    ] = False
    image_size: Annotated[int, Meta(ge=16, le=256, description="Images are scaled to this many pixels a side")] = 64
    flatten_grids: Annotated[
        bool, Meta(description="Give small grids (boards, maps) to the network as a vector instead of as an image")
    ] = True
    max_steps: Annotated[int, Meta(ge=0, description="Cut episodes after this many steps; 0: never")] = 0


@dataclass(frozen=True)
class EnvironmentConfig:
    family: Annotated[EnvironmentFamily, Meta(description="Where the environment comes from")] = (
        EnvironmentFamily.GYMNASIUM
    )
    env_id: Annotated[str, Meta(description="Such as CartPole-v1, waterworld_v4, tictactoe_v3")] = "CartPole-v1"
    api_type: Annotated[
        PettingZooAPIType | None,
        Meta(
            description="PettingZoo interface: agents in turn or all at once; null: all at once where there is a choice"
        ),
    ] = None
    env_kwargs: Annotated[dict[str, Any], Meta(description="Passed to the environment when it is made")] = field(
        default_factory=dict
    )
    wrappers: WrapperConfig = WrapperConfig()


@dataclass(frozen=True)
class TrainingConfig:
    algorithm: Annotated[str, Meta(description="Which of RLlib's algorithms learns")] = "PPO"
    total_timesteps: Annotated[int, Meta(ge=1, description="Training budget in environment steps")] = 100_000
    hyperparameters: Annotated[dict[str, Any], Meta(description="Hyperparameters of the algorithm")] = field(
        default_factory=dict
    )
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seeds environments, networks and exploration")] = 0


@dataclass(frozen=True)
class ResourceConfig:
    num_workers: Annotated[
        int, Meta(ge=0, le=1000, description="Processes that play; 0: play in the learning process (good on few cores)")
    ] = 2
    num_gpus: Annotated[float, Meta(ge=0, description="GPUs of the learner")] = 0.0
    num_cpus: Annotated[int, Meta(ge=1, description="CPUs for each worker process")] = 1
    num_learners: Annotated[int, Meta(ge=0, description="Learner processes; 0: learn in the main process")] = 0
    address: Annotated[
        str, Meta(description="HOST:PORT of a running Ray cluster to train on; empty: a Ray of the run's own")
    ] = ""
    token_file: Annotated[str, Meta(description="The cluster's token; empty: as Ray finds it by itself")] = ""
    num_envs_per_worker: Annotated[int, Meta(ge=1, le=256, description="Environments that a worker steps together")] = 1


@dataclass(frozen=True)
class CheckpointConfig:
    frequency: Annotated[int, Meta(ge=0, description="Environment steps between checkpoints; 0: only at the end")] = 0
    directory: Annotated[
        str, Meta(description="Also copy each checkpoint below this folder; empty: keep them in the run folder only")
    ] = ""
    keep: Annotated[int, Meta(ge=0, description="How many of the newest checkpoints to keep; 0: all")] = 5
    replay_buffer: Annotated[
        bool, Meta(description="Save the replay buffer too, where there is one: large, but nothing is learned anew")
    ] = False


@dataclass(frozen=True)
class LeagueConfig:
    """SELF_PLAY: the learning policy plays against frozen snapshots of itself."""

    snapshot_every: Annotated[int, Meta(ge=1, description="Environment steps between two snapshots")] = 20_000
    matchmaking: Annotated[
        Matchmaking, Meta(description="Which snapshots to meet: any, the newest, or those that are hard to beat")
    ] = Matchmaking.UNIFORM
    opponents: Annotated[int, Meta(ge=1, le=16, description="How many different snapshots are met at a time")] = 3
    random_opponents: Annotated[
        int,
        Meta(ge=0, le=16, description="How many opponents beside them play at random, each met as often as a snapshot"),
    ] = 1
    evaluation_games: Annotated[
        int, Meta(ge=0, description="Games against each judged opponent at each snapshot, seats swapped; 0: none")
    ] = 20
    keep: Annotated[int, Meta(ge=2, description="How many snapshots to keep: the first and the newest ones")] = 20


@dataclass(frozen=True)
class MappedPolicyConfig:
    """One policy of a MAPPING: what plays it, and whether it learns."""

    kind: Annotated[PolicyKind, Meta(description="Whether it learns, and if not, what plays instead")] = (
        PolicyKind.TRAINED
    )
    checkpoint: Annotated[str, Meta(description="FROZEN: the folder of a checkpoint of this worker")] = ""
    policy: Annotated[
        str, Meta(description="FROZEN: which of its policies, such as a snapshot; empty: the only one that it has")
    ] = ""
    explore: Annotated[bool, Meta(description="FROZEN: draw actions as in training instead of taking the best")] = False
    script: Annotated[
        str,
        Meta(
            description="SCRIPTED: FILE.py:NAME or MODULE:NAME, a function (observation, info) that returns an action"
        ),
    ] = ""


@dataclass(frozen=True)
class MappingConfig:
    """MAPPING: who plays with which policy."""

    agents: Annotated[dict[str, str], Meta(description="Agent or team -> policy; an agent's own entry goes first")] = (
        field(default_factory=dict)
    )
    teams: Annotated[
        dict[str, list[str]], Meta(description="Team -> its agents, by name or by pattern such as adversary_*")
    ] = field(default_factory=dict)
    policies: Annotated[
        dict[str, MappedPolicyConfig], Meta(description="Policy -> what it is; one that is not named here is trained")
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class PopulationConfig:
    """Population-based training: several trainings at once; at each exchange the worst go on from the best ones' state
    with hyperparameters changed a little."""

    size: Annotated[
        int, Meta(ge=0, le=100, description="Trainings in the population; 0: a single one, no population")
    ] = 0
    interval: Annotated[int, Meta(ge=1, description="Environment steps of each training between two exchanges")] = (
        20_000
    )
    mutations: Annotated[
        dict[str, Any],
        Meta(
            description="Which hyperparameters differ: name -> list of values, or {low, high, log} (log: true draws "
            "magnitudes alike)"
        ),
    ] = field(default_factory=dict)
    metric: Annotated[
        str, Meta(description="What is compared, of the metrics that a training tells; more is better")
    ] = "episode_return_mean"
    replaced: Annotated[
        float, Meta(gt=0, le=0.5, description="Share of the population that gives up its state at an exchange")
    ] = 0.25
    resample_probability: Annotated[
        float, Meta(ge=0, le=1, description="How often a hyperparameter is drawn anew instead of changed by a fifth")
    ] = 0.25
    at_once: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How many train at the same time; 0: as many as there are CPUs for (in a cluster: always)",
        ),
    ] = 0


@dataclass(frozen=True)
class RayWorkerConfig:
    run_id: Annotated[str, Meta(description="Identifies the run; the platform fills it in")] = ""
    environment: EnvironmentConfig = EnvironmentConfig()
    policy_configuration: Annotated[
        PolicyConfiguration, Meta(description="Who shares a policy with whom; of no matter with a single agent")
    ] = PolicyConfiguration.PARAMETER_SHARING
    training: TrainingConfig = TrainingConfig()
    resources: ResourceConfig = ResourceConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    league: LeagueConfig = LeagueConfig()
    mapping: MappingConfig = MappingConfig()
    population: PopulationConfig = PopulationConfig()
