"""The worker as the contract sees it. Describing and checking need neither Ray nor torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from mosaic.worker import Algorithm, ConfigFields, Policy, Run, Session, Worker
from ray_worker import CAPABILITIES, __version__
from ray_worker.algo_params import described_algorithms
from ray_worker.cluster import check_reachable, check_room
from ray_worker.config import RayWorkerConfig, ResourceConfig
from ray_worker.mutations import check_population


class RayWorker(Worker[RayWorkerConfig]):
    """Ray RLlib: distributed training of one agent or many, on Gymnasium and PettingZoo environments."""

    capabilities = CAPABILITIES
    version = __version__
    title = "Ray RLlib"
    config_type = RayWorkerConfig
    fields = ConfigFields(
        algorithm="training.algorithm",
        params="training.hyperparameters",
        total_steps="training.total_timesteps",
        environment="environment.env_id",
        seed="training.seed",
    )
    example_config: ClassVar[Mapping[str, Any]] = {
        "environment": {"family": "gymnasium", "env_id": "CartPole-v1"},
        "training": {
            "algorithm": "PPO",
            "total_timesteps": 2_000,
            "hyperparameters": {
                "lr": 0.0003,
                "train_batch_size_per_learner": 500,
                "num_epochs": 4,
                "model_config": {"fcnet_hiddens": [64, 64]},
            },
        },
        "resources": {"num_workers": 0, "num_envs_per_worker": 4},
    }

    @property
    def algorithms(self) -> Mapping[str, Algorithm]:
        return described_algorithms()

    def validate(self, config: RayWorkerConfig) -> None:
        from ray_worker.environments import EnvironmentFactory
        from ray_worker.policies import plan_policies

        check_resources(config.resources)
        check_population(config)
        plan_policies(config, EnvironmentFactory(config.environment).facts())

    def run(self, config: RayWorkerConfig, run: Run) -> Mapping[str, Any]:
        from ray_worker.runtime import RayWorkerRuntime

        return RayWorkerRuntime(config, run).run()

    def open_session(self, config: RayWorkerConfig) -> Session:
        from ray_worker.environments import EnvironmentFactory
        from ray_worker.session import GameSession

        return GameSession(EnvironmentFactory(config.environment).make(render=True))

    def load_policy(self, checkpoint: Path) -> Policy:
        from ray_worker.policy_actor import RayPolicyConfig, create_ray_actor

        return create_ray_actor(RayPolicyConfig(checkpoint))


def check_resources(resources: ResourceConfig) -> None:
    if resources.address:
        check_reachable(resources.address)
    else:
        check_room(resources, len(os.sched_getaffinity(0)), "this machine")
