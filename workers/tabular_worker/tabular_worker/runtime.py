"""The worker: trains a table, steps an environment for a session, plays a trained table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import msgspec

from mosaic.fastlane import Settings, frames_mode, wrap_env
from mosaic.worker import Algorithm, Command, ConfigError, ConfigFields, Run, Worker, refuse, schema_of
from mosaic.worker.actions import fit_action
from mosaic.worker.checkpoints import read_card
from tabular_worker import CAPABILITIES, __version__
from tabular_worker.config import TabularParams, TabularWorkerConfig
from tabular_worker.learner import Learner, Progress, Table, read_checkpoint, read_table, write_checkpoint

ALGORITHMS = {
    "q_learning": ("Q-learning", "Learns the value of acting greedily, whatever it does meanwhile (off-policy)."),
    "sarsa": ("SARSA", "Learns the value of what it really does, exploration included (on-policy)."),
    "expected_sarsa": ("Expected SARSA", "SARSA with the mean over the next action instead of a sample."),
}

# Returns are averaged over this many episodes for the metric that people look at.
RECENT_EPISODES = 100


class TabularWorker(Worker[TabularWorkerConfig]):
    """Tabular Q-learning, SARSA and expected SARSA on Gymnasium environments with discrete spaces."""

    capabilities = CAPABILITIES
    version = __version__
    title = "Tabular reinforcement learning"
    config_type = TabularWorkerConfig
    fields = ConfigFields(params="hyperparameters")
    example_config: ClassVar[Mapping[str, Any]] = {
        "algorithm": "q_learning",
        "env_id": "FrozenLake-v1",
        "total_timesteps": 20_000,
    }

    @property
    def algorithms(self) -> Mapping[str, Algorithm]:
        schema = schema_of(TabularParams)
        return {name: Algorithm(title, schema, text) for name, (title, text) in ALGORITHMS.items()}

    def validate(self, config: TabularWorkerConfig) -> None:
        make_env(config).close()

    def run(self, config: TabularWorkerConfig, run: Run) -> Mapping[str, Any]:
        env = make_watchable_env(config)
        try:
            return Training(config, run, env).run()
        finally:
            env.close()

    def open_session(self, config: TabularWorkerConfig) -> EnvSession:
        return EnvSession(make_env(config))

    def load_policy(self, checkpoint: Path) -> TablePolicy:
        card = read_card(checkpoint)
        if card.worker != CAPABILITIES.worker_type:
            raise ConfigError(refuse("checkpoint", card.worker, f"a checkpoint of worker {CAPABILITIES.worker_type!r}"))
        return TablePolicy(read_table(checkpoint))


def make_env(config: TabularWorkerConfig, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    try:
        env = gymnasium.make(config.env_id, **{**config.env_kwargs, **kwargs})
    except gymnasium.error.Error as error:
        raise ConfigError(refuse("env_id", config.env_id, f"a registered Gymnasium environment ({error})")) from None
    except TypeError as error:
        raise ConfigError(refuse("env_kwargs", config.env_kwargs, f"arguments of {config.env_id} ({error})")) from None
    for name, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not isinstance(space, gymnasium.spaces.Discrete):
            env.close()
            allowed = f"an environment with a discrete {name} space (this one has {space}), such as FrozenLake-v1"
            raise ConfigError(refuse("env_id", config.env_id, allowed))
    return env


def make_watchable_env(config: TabularWorkerConfig) -> gymnasium.Env[Any, Any]:
    """The environment, drawing for whoever watches; an unwatched run pays nothing for it."""
    lane = Settings.from_environment("TABULAR")
    if not lane.is_on or "render_mode" in config.env_kwargs:
        return make_env(config)
    plain = make_env(config)
    mode = frames_mode(plain.metadata, asked=None)
    plain.close()
    return wrap_env(make_env(config, render_mode=mode), lane)


class Training:
    """One training run: step, learn, report, save, obey."""

    def __init__(self, config: TabularWorkerConfig, run: Run, env: gymnasium.Env[Any, Any]) -> None:
        self.config = config
        self.job = run
        self.env = env
        params = msgspec.convert(config.hyperparameters, TabularParams)
        states, actions = env.observation_space.n, env.action_space.n  # type: ignore[attr-defined]
        self.learner = Learner(config.algorithm, params, states, actions, config.total_timesteps, config.seed)

    def run(self) -> Mapping[str, Any]:
        progress = self._start()
        saved_at = -1
        while progress.step < self.config.total_timesteps:
            command = self.job.poll()
            if command is Command.STOP:
                break
            due = self.config.checkpoint_every and progress.step % self.config.checkpoint_every == 0
            if command is Command.CHECKPOINT or (due and progress.step not in (0, saved_at)):
                saved_at = self._save(progress)
            self._advance(progress)
        if saved_at != progress.step:
            self._save(progress)
        return {"steps": progress.step, "episodes": progress.episode, "recent_return": recent_return(progress)}

    def _start(self) -> Progress:
        state, _ = self.env.reset(seed=self.config.seed)
        if self.job.resume_folder is not None:
            return read_checkpoint(self.job.resume_folder, self.learner, self.env)
        action = self.learner.act(int(state), self.learner.epsilon(0))
        return Progress(step=0, episode=0, episode_return=0.0, episode_length=0, state=int(state), next_action=action)

    def _advance(self, at: Progress) -> None:
        """One environment step, learned from and told."""
        action = at.next_action
        following, reward, terminated, truncated, _ = self.env.step(action)
        at.step += 1
        epsilon = self.learner.epsilon(at.step)
        chosen = self.learner.act(int(following), epsilon)
        error = self.learner.learn(at.state, action, float(reward), int(following), chosen, terminated, epsilon)
        at.state, at.next_action = int(following), chosen
        at.episode_return += float(reward)
        at.episode_length += 1
        if self.config.step_events:
            self.job.telemetry.step(at.step, float(reward), episode=at.episode)
        if terminated or truncated:
            self._end_episode(at)
        if at.step % self.config.report_every == 0:
            values = {"epsilon": epsilon, "td_error": error}
            recent = recent_return(at)
            if recent is not None:
                values["recent_return"] = recent
            self.job.telemetry.metric(at.step, values)

    def _end_episode(self, at: Progress) -> None:
        self.job.telemetry.episode(at.step, at.episode, at.episode_return, at.episode_length)
        at.recent_returns = [*at.recent_returns[-RECENT_EPISODES + 1 :], at.episode_return]
        state, _ = self.env.reset()
        at.episode += 1
        at.episode_return, at.episode_length = 0.0, 0
        at.state, at.next_action = int(state), self.learner.act(int(state), self.learner.epsilon(at.step))

    def _save(self, progress: Progress) -> int:
        self.job.save_checkpoint(
            progress.step,
            lambda folder: write_checkpoint(folder, self.learner, self.env, progress),
            algorithm=self.config.algorithm,
            environment=self.config.env_id,
            seed=self.config.seed,
            observation_space=str(self.env.observation_space),
            action_space=str(self.env.action_space),
        )
        return progress.step


def recent_return(progress: Progress) -> float | None:
    returns = progress.recent_returns
    return sum(returns) / len(returns) if returns else None


class EnvSession:
    """`--interactive`: somebody outside steps the environment."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env

    def reset(self, seed: int | None) -> Mapping[str, Any]:
        observation, info = self._env.reset(seed=seed)
        return {"observation": observation, "info": info}

    def step(self, action: Any) -> Mapping[str, Any]:
        observation, reward, terminated, truncated, info = self._env.step(fit_action(action, self._env.action_space))
        return {
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "info": info,
        }

    def close(self) -> None:
        self._env.close()


class TablePolicy:
    """`--serve`: the greedy policy of a trained table; an `action_mask` in the info is respected."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def select_action(self, observation: Any, info: Mapping[str, Any]) -> int:
        if not isinstance(observation, int) or not 0 <= observation < len(self._table):
            raise ValueError(f"observation: got {observation!r}, allowed: an integer from 0 to {len(self._table) - 1}")
        values = self._table[observation].copy()
        mask = info.get("action_mask")
        if mask is not None:
            values[[not allowed for allowed in mask]] = float("-inf")
        return int(values.argmax())
