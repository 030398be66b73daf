"""`XuanCeWorkerRuntime`: one run, from the first step or from a checkpoint; training goes in chunks, in process."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mosaic.fastlane import Settings
from mosaic.worker import Command, Run
from mosaic.worker.checkpoints import verify
from xuance_worker import checkpoints
from xuance_worker.building import build_agent, forget_episodes, prepare_xuance
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.plan import Plan, check_card, make_plan
from xuance_worker.policy import TrainedPolicy
from xuance_worker.telemetry import Reporter, TensorBoardTracker, Tracker, WandbTracker
from xuance_worker.vector import make_vector

# How long a chunk should take: commands are obeyed between chunks.
CHUNK_S = 0.3


class XuanCeWorkerRuntime:
    """Builds the agent, trains it, reports, saves, obeys."""

    def __init__(self, config: XuanCeWorkerConfig, run: Run) -> None:
        self._config = config
        self._run = run
        self._plan: Plan = make_plan(config)
        self._fastlane = Settings.from_environment("XUANCE").with_extras(config.extras)
        self._saved_at = -1
        self._stage = 0

    def run(self) -> Mapping[str, Any]:
        prepare_xuance()
        return self._evaluate() if self._config.mode == "evaluate" else self._train()

    # Training

    def _train(self) -> Mapping[str, Any]:
        config = self._config
        reporter = Reporter(self._run, self._plan.agents, config.report_every, self._trackers())
        self._reporter = reporter
        progress_of = self._run.resume_folder
        self._stage = self._stage_at(self._run.resume_card.step if self._run.resume_card else 0)
        envs = make_vector(config, self._plan, stage=self._stage, fastlane=self._fastlane)
        self._agent = build_agent(config, self._plan, envs)
        self._agent.log_infos = reporter.learned
        reporter.exploration = self._exploration
        try:
            if progress_of is not None:
                check_card(progress_of, config, self._plan)
                reporter.go_on_from(checkpoints.read(progress_of, self._agent))
            elif config.checkpoint:
                checkpoints.load_policy(_verified(config, self._plan), self._agent)
            envs.observer = reporter.stepped
            self._loop()
        finally:
            self._agent.train_envs.close()
            reporter.close()
        return {"steps": reporter.steps, "episodes": reporter.episodes, "recent_return": reporter.recent_return}

    def _loop(self) -> None:
        budget, width = self._config.total_timesteps, self._config.parallels
        every = self._config.checkpoint_every
        chunk = 1
        self._tell_stage()
        while self._reporter.steps < budget:
            command = self._run.poll()
            if command is Command.STOP:
                break
            due = every and self._reporter.steps // every * every > max(self._saved_at, 0)
            if command is Command.CHECKPOINT or (due and self._reporter.steps > 0):
                self._save()
            goal = self._next_goal(budget)
            steps = min(chunk, -(-(goal - self._reporter.steps) // width))
            begun = time.monotonic()
            self._agent.train(steps)
            seconds = max(time.monotonic() - begun, 1e-6)
            # Never much longer than the last one: an update may fall into the next chunk.
            chunk = max(1, min(2 * steps, int(steps * CHUNK_S / seconds)))
            self._swap_if_due()
        if self._saved_at != self._reporter.steps:
            self._save()

    def _next_goal(self, budget: int) -> int:
        """The step at which the next thing is to be done."""
        goals = [budget]
        if self._config.checkpoint_every:
            every = self._config.checkpoint_every
            goals.append((self._reporter.steps // every + 1) * every)
        if self._stage + 1 < len(self._config.curriculum):
            goals.append(self._stage_end(self._stage))
        return min(goals)

    def _exploration(self) -> dict[str, float]:
        told = {}
        for name, attribute in (("epsilon", "e_greedy"), ("epsilon", "egreedy"), ("noise", "noise_scale")):
            value = getattr(self._agent, attribute, None)
            if value is not None:
                told[f"exploration/{name}"] = float(value)
        return told

    def _trackers(self) -> list[Tracker]:
        trackers: list[Tracker] = []
        for wanted, name in ((self._config.tensorboard, "tensorboard"), (self._config.wandb, "wandb")):
            if not wanted:
                continue
            folder = self._run.folder / name
            if name == "tensorboard":
                trackers.append(TensorBoardTracker(folder))
            else:
                trackers.append(WandbTracker(folder, self._run.id, dataclasses.asdict(self._config)))
            self._run.manifest.add(name, folder)
        return trackers

    # The curriculum

    def _stage_end(self, stage: int) -> int:
        return sum(item.steps for item in self._config.curriculum[: stage + 1])

    def _stage_at(self, step: int) -> int:
        last = max(0, len(self._config.curriculum) - 1)
        return next((stage for stage in range(last) if step < self._stage_end(stage)), last)

    def _swap_if_due(self) -> None:
        """Put the next stage's environments in the place of this one's; networks and optimizers stay."""
        stage = self._stage_at(self._reporter.steps)
        if stage == self._stage:
            return
        self._stage = stage
        envs = make_vector(self._config, self._plan, stage=stage, fastlane=self._fastlane)
        self._agent.train_envs.close()
        envs.reset()
        envs.observer = self._reporter.stepped
        self._agent.train_envs = envs
        if self._plan.entry.is_on_policy:
            self._agent.memory.clear()  # no rollout may run from one environment into another
        forget_episodes(self._agent)
        self._tell_stage()

    def _tell_stage(self) -> None:
        stages = self._config.curriculum
        if stages:
            name = stages[self._stage].env_id or self._config.env_id
            self._run.telemetry.stage(name, index=self._stage + 1, total=len(stages), step=self._reporter.steps)

    # Checkpoints

    def _save(self) -> None:
        config, plan, step = self._config, self._plan, self._reporter.steps

        def write(folder: Path) -> None:
            checkpoints.write(
                folder,
                self._agent,
                dataclasses.asdict(config),
                self._reporter.progress(),
                with_buffer=config.save_buffer or plan.entry.is_on_policy,
            )

        self._run.save_checkpoint(
            step,
            write,
            algorithm=config.algorithm,
            environment=config.env_id,
            seed=config.seed,
            observation_space=_join(plan.observation_spaces),
            action_space=_join(plan.action_spaces),
            agents=list(plan.agents),
            extra={"family": config.env_family, "parameter_sharing": plan.sharing, "parallels": config.parallels},
            keep=config.keep_checkpoints or None,
        )
        self._saved_at = step

    # Evaluation

    def _evaluate(self) -> Mapping[str, Any]:
        """Play episodes one after the other with the policy at its best: no exploration."""
        config = self._config
        reporter = Reporter(self._run, self._plan.agents, config.report_every, self._trackers())
        self._run.telemetry.stage("evaluation", index=1, total=1, step=0)
        envs = make_vector(config, self._plan, parallels=1, fastlane=self._fastlane)
        policy = TrainedPolicy(_verified(config, self._plan))
        returns: list[float] = []
        try:
            envs.observer = reporter.stepped
            envs.reset()
            game = envs.envs[0].env.game
            while reporter.episodes < config.episodes and self._run.poll() is not Command.STOP:
                game_over = reporter.episodes + 1
                policy.begin_episode()
                while reporter.episodes < game_over:
                    envs.step([policy.actions_for_vector(game)])
                returns.append(reporter.last_return)
                reporter.report()
        finally:
            envs.close()
            reporter.close()
        mean = sum(returns) / len(returns) if returns else None
        return {"episodes": len(returns), "return_mean": mean, "returns": returns, "checkpoint": config.checkpoint}


def _verified(config: XuanCeWorkerConfig, plan: Plan) -> Path:
    folder = Path(config.checkpoint).expanduser()
    verify(folder)
    check_card(folder, config, plan)
    return folder


def _join(spaces: Mapping[str, Any]) -> str:
    """The spaces of all agents, each kind told once."""
    return "; ".join(dict.fromkeys(str(space) for space in spaces.values()))
