"""The worker as the contract sees it. Describing and checking need neither XuanCe nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from mosaic.worker import Algorithm, ConfigError, ConfigFields, Policy, Run, Session, Worker, refuse
from xuance_worker import CAPABILITIES, __version__
from xuance_worker.algorithm_registry import described
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.entries import NOT_OFFERED


class XuanCeWorker(Worker[XuanCeWorkerConfig]):
    """XuanCe: multi-agent algorithms in process, on PettingZoo games; single-agent ones on Gymnasium."""

    capabilities = CAPABILITIES
    version = __version__
    title = "XuanCe"
    config_type = XuanCeWorkerConfig
    fields = ConfigFields(params="hyperparameters")
    example_config: ClassVar[Mapping[str, Any]] = {
        "algorithm": "mappo",
        "env_family": "mpe",
        "env_id": "simple_spread_v3",
        "total_timesteps": 2_000,
        "parallels": 4,
        "report_every": 200,
    }

    @property
    def algorithms(self) -> Mapping[str, Algorithm]:
        return described()

    @property
    def not_offered(self) -> Mapping[str, str]:
        return NOT_OFFERED

    def validate(self, config: XuanCeWorkerConfig) -> None:
        from xuance_worker.plan import check_card, make_plan

        plan = make_plan(config)
        if config.mode == "evaluate" and not config.checkpoint:
            raise ConfigError(refuse("checkpoint", config.checkpoint, "the folder of a checkpoint to evaluate"))
        if config.checkpoint:
            check_card(Path(config.checkpoint).expanduser(), config, plan)

    def total_steps(self, config: XuanCeWorkerConfig) -> int | None:
        return config.total_timesteps if config.mode == "train" else None  # an evaluation counts episodes

    def run(self, config: XuanCeWorkerConfig, run: Run) -> Mapping[str, Any]:
        from xuance_worker.runtime import XuanCeWorkerRuntime

        return XuanCeWorkerRuntime(config, run).run()

    def open_session(self, config: XuanCeWorkerConfig) -> Session:
        from xuance_worker.environments import make_game
        from xuance_worker.plan import make_plan
        from xuance_worker.session import GameSession

        return GameSession(make_game(config, continuous=make_plan(config).kind == "box", render=True))

    def load_policy(self, checkpoint: Path) -> Policy:
        from xuance_worker.policy import TrainedPolicy

        return TrainedPolicy(checkpoint)
