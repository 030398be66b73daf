"""RLlib's AlgorithmConfig from ours."""

from __future__ import annotations

import tempfile
from typing import Any

import msgspec
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env
from ray.tune.trainable import trainable

from ray_worker.algo_params import ALGORITHMS
from ray_worker.callbacks import RunCallbacks
from ray_worker.config import RayWorkerConfig
from ray_worker.environments import EnvironmentFacts
from ray_worker.mapping import PolicySpec
from ray_worker.modules import (
    PLAYER,
    MaskedAPPOModule,
    MaskedDQNModule,
    MaskedPPOModule,
    MaskedSACModule,
    PlayedModule,
    RandomModule,
)
from ray_worker.observations import Codec
from ray_worker.policies import AgentMapping, PolicyPlan, SeatMapping
from ray_worker.rllib_env import MultiAgentGame, make_single
from ray_worker.runners import MultiRunner, SingleRunner
from ray_worker.schema_source import REPLAY, REPLAY_PRIORITISED, load_config_class
from ray_worker.shared_critic import (
    CRITIC,
    ActorsAndCritic,
    CentrallyJudgedModule,
    JoinObservations,
    MaskedCentrallyJudgedModule,
    critic_spec,
)

ENVIRONMENT = "mosaic"
# RLlib knows filters for a few image sizes only; these do for all.
IMAGE_FILTERS = [[16, 8, 4], [32, 4, 2], [32, 3, 2]]
GRID_FILTERS = [[32, 3, 1], [32, 3, 2]]
MASKED_MODULES: dict[str, type] = {
    "PPO": MaskedPPOModule,
    "A2C": MaskedPPOModule,
    "IMPALA": MaskedPPOModule,
    "APPO": MaskedAPPOModule,
    "DQN": MaskedDQNModule,
    "SAC": MaskedSACModule,
}
# RLlib lets iterations of the asynchronous algorithms last 10 seconds, in which nothing is told and nobody obeys.
ITERATION_S = 2


# Each algorithm makes a folder there, for logs that nobody asked for; its own choice is the home folder.
trainable.DEFAULT_STORAGE_PATH = tempfile.gettempdir()


def build_config(config: RayWorkerConfig, facts: EnvironmentFacts, plan: PolicyPlan, seed: int) -> AlgorithmConfig:
    parameters = dict(config.training.hyperparameters)
    model = parameters.pop("model_config", {})
    fragment = parameters.pop("rollout_fragment_length", None)
    entry = ALGORITHMS[config.training.algorithm]
    built = load_config_class(entry)()
    register_env(ENVIRONMENT, make_single if facts.is_single else MultiAgentGame)
    built.environment(
        ENVIRONMENT,
        env_config=msgspec.to_builtins(config.environment),
        # The wrapper keeps to the rules by its own tests; RLlib's check would step it once more at each start.
        disable_env_checking=True,
    )
    if REPLAY in entry.parameters:
        parameters[REPLAY] = _replay(built, facts, parameters.get(REPLAY, {}))
    built.training(**parameters)
    if built.min_time_s_per_iteration:
        built.reporting(min_time_s_per_iteration=ITERATION_S)
    built.callbacks(RunCallbacks)
    built.debugging(seed=seed, log_level="ERROR")
    # Learning goes on when a runner dies; RLlib starts another one.
    built.fault_tolerance(restart_failed_env_runners=True)
    built.env_runners(env_runner_cls=SingleRunner if facts.is_single else MultiRunner)
    _place(built, config, fragment)
    specs = {name: _policy_module(config.training.algorithm, plan, name, model) for name in plan.policies}
    if facts.is_single:
        built.rl_module(rl_module_spec=next(iter(specs.values())))
    else:
        seats = SeatMapping(facts.agents, (*plan.frozen, *plan.random)) if plan.frozen else AgentMapping(plan.mapping)
        built.multi_agent(policies=set(specs), policy_mapping_fn=seats, policies_to_train=plan.trained)
        if plan.central:
            _add_critic(built, specs, plan, model)
        else:
            built.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs))
    return built


def _replay(built: AlgorithmConfig, facts: EnvironmentFacts, given: dict[str, Any]) -> dict[str, Any]:
    """The buffer's settings with its kind filled in; the kinds for several agents have names of their own."""
    settings = {**built.replay_buffer_config, **given}
    kind = settings["type"] if facts.is_single else f"MultiAgent{settings['type']}"
    if REPLAY_PRIORITISED in kind:
        return {**settings, "type": kind}
    return {"type": kind, "capacity": settings["capacity"]}


def _add_critic(
    built: AlgorithmConfig, specs: dict[str, RLModuleSpec], plan: PolicyPlan, model: dict[str, Any]
) -> None:
    """One critic for all actors; it exists where learning happens and nowhere else."""
    sizes = {agent: plan.codecs[agent].size for agent in plan.mapping}
    for name, spec in specs.items():
        masked = plan.policies[name].codec.masked
        spec.module_class = MaskedCentrallyJudgedModule if masked else CentrallyJudgedModule
        # The module's own value function stays unused: let it share what it can.
        spec.model_config = {**spec.model_config, "vf_share_layers": True}
    critic = critic_spec(sizes, next(iter(plan.policies.values())).action_space, model)
    built.multi_agent(policies={*specs, CRITIC}, policies_to_train=[*specs, CRITIC])
    built.rl_module(
        rl_module_spec=MultiRLModuleSpec(
            multi_rl_module_class=ActorsAndCritic, rl_module_specs={**specs, CRITIC: critic}
        )
    )
    built.training(learner_connector=JoinObservations.factory(sizes))


def _place(built: AlgorithmConfig, config: RayWorkerConfig, fragment: Any) -> None:
    resources = config.resources
    built.env_runners(
        num_env_runners=resources.num_workers,
        num_envs_per_env_runner=resources.num_envs_per_worker,
        num_cpus_per_env_runner=resources.num_cpus,
        **({} if fragment is None else {"rollout_fragment_length": fragment}),
    )
    built.learners(num_learners=resources.num_learners, num_gpus_per_learner=resources.num_gpus)


def _policy_module(algorithm: str, plan: PolicyPlan, name: str, model: dict[str, Any]) -> RLModuleSpec:
    if name in plan.random:
        return RLModuleSpec(module_class=RandomModule)
    if name in plan.players:
        return RLModuleSpec(module_class=PlayedModule, model_config={PLAYER: plan.players[name]})
    return _module_spec(algorithm, plan.policies[name], model)


def _module_spec(algorithm: str, spec: PolicySpec, model: dict[str, Any]) -> RLModuleSpec:
    return RLModuleSpec(
        module_class=MASKED_MODULES[algorithm] if spec.codec.masked else None,
        model_config={**default_filters(spec.codec), **model},
    )


def default_filters(codec: Codec) -> dict[str, Any]:
    match codec.kind:
        case "image":
            return {"conv_filters": IMAGE_FILTERS}
        case "grid":
            return {"conv_filters": GRID_FILTERS}
        case _:
            return {}
