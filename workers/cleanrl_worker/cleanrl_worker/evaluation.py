"""`policy_eval`: a checkpoint's policy plays episodes; what comes of it is told with its uncertainty."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import msgspec
import numpy as np

from cleanrl_worker import environments, patches
from cleanrl_worker.bridge import space_to_gymnasium
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.families import family_of
from cleanrl_worker.fastlane import run_settings, watched
from cleanrl_worker.objects import environments_in
from cleanrl_worker.packing import Unpacker
from cleanrl_worker.policies import NetworkPolicy, entry_of
from cleanrl_worker.session import acting_as_current
from cleanrl_worker.snapshot import read_arrays, read_state
from cleanrl_worker.watching import Array, VectorWatch
from mosaic.fastlane import Settings
from mosaic.files import write_atomic
from mosaic.worker import CheckpointCard, Command, Run
from mosaic.worker.checkpoints import verify
from mosaic.worker.estimates import mean_of


class EpisodeRecord:
    """The games of one environment, by their true rewards, whatever the script's wrappers make of them."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self.finished: list[dict[str, Any]] = []
        self.begin()

    def begin(self) -> None:
        self._return = self._discounted = 0.0
        self._weight, self._length = 1.0, 0

    def add(self, reward: float, over: bool, length: int | None = None) -> None:
        """One step. `length`: the game's length where the engine counts it itself."""
        self._return += reward
        self._discounted += self._weight * reward
        self._weight *= self._gamma
        self._length += 1
        if over:
            whole = self._length if length is None else length
            self.finished.append({"return": self._return, "discounted_return": self._discounted, "length": whole})
            self.begin()


class EpisodeRecorder(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Innermost around an environment."""

    def __init__(self, env: Any, record: EpisodeRecord) -> None:
        super().__init__(env)
        self._record = record

    def reset(self, **kwargs: Any) -> Any:
        self._record.begin()
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._record.add(float(result[1]), bool(result[2] or result[3]))
        return result


class VectorRecorder(VectorWatch):
    """The same for environments that come as a whole vector."""

    def __init__(self, records: list[EpisodeRecord], fastlane: Settings, pictures: Callable[[], Any] | None) -> None:
        super().__init__(len(records), fastlane, pictures)
        self._records = records

    def attend(self) -> None:
        """Nobody asks anything of a vector here: the loop that steps it does."""

    def tally(self, rewards: Array, over: Array, lengths: Array | None) -> None:
        for index, record in enumerate(self._records):
            record.add(float(rewards[index]), bool(over[index]), None if lengths is None else int(lengths[index]))


class WholeVector:
    """A script's whole vector of environments, used as gymnasium's vectors are."""

    def __init__(self, envs: Any) -> None:
        self._envs = envs
        self.num_envs = int(envs.num_envs)
        self.single_observation_space = space_to_gymnasium(envs.single_observation_space)
        self.single_action_space = space_to_gymnasium(envs.single_action_space)

    def reset(self, *, seed: int) -> Any:
        """The seed was given when the vector was made."""
        return self._envs.reset(), {}

    def step(self, actions: Any) -> Any:
        observations, rewards, done, info = self._envs.step(actions)
        return observations, rewards, np.asarray(done, dtype=bool), np.zeros(self.num_envs, dtype=bool), info

    def close(self) -> None:
        self._envs.close()


class EvaluationEnvironments:
    """Makes environments as the script makes its own, wrappers and all, for a policy to act in."""

    def __init__(
        self, config: CleanRLWorkerConfig, folder: Path, card: CheckpointCard, videos: Path | None = None
    ) -> None:
        self._config = config
        self._videos = videos  # the folder for them, if there are to be any
        self._folder = folder
        self._card = card
        self._entry = entry_of(card, folder)
        self._fastlane = run_settings(config.extras)
        self.records: list[EpisodeRecord] = []
        self.seed = 0
        patches.install()

    def make_env(self, env_id: Any, options: Mapping[str, Any]) -> Any:
        """What gymnasium.make gives while the script's own make_env is at work."""
        slot = len(self.records)
        environments.register(env_id)
        frames = self._videos is not None or self._fastlane.is_on
        env = environments.plain_make(env_id, **environments.make_options(env_id, options, frames))
        env = watched(env, self._fastlane, slot)
        if self._videos is not None and slot == 0:
            # Repeats have other seeds, so that none writes over the videos of another.
            env = gymnasium.wrappers.RecordVideo(
                env, str(self._videos), lambda _: True, name_prefix=f"seed-{self.seed}", disable_logger=True
            )
        (record,) = self._new_records(1)
        return environments.prepare(EpisodeRecorder(env, record), self._entry.observation)

    def watch_vector(self, count: int, pictures: Callable[[], Any] | None = None) -> VectorWatch:
        """What hears of the steps of a whole vector that the script's own statements make."""
        return VectorRecorder(self._new_records(count), self._fastlane, pictures)

    def _new_records(self, count: int) -> list[EpisodeRecord]:
        new = [EpisodeRecord(self._config.extras.eval_gamma) for _ in range(count)]
        self.records += new
        return new

    def make(self, count: int, seed: int = 0) -> Any:
        """`count` environments, or a few more where they come only together."""
        self.records.clear()
        self.seed = seed
        with acting_as_current(self):
            module = importlib.import_module(self._entry.module)
            script_arguments = self._card.extra["arguments"]
            if family_of(self._card.environment).whole:
                return self._make_whole(vars(module), {**script_arguments, "num_envs": count, "seed": seed})
            given = {
                "env_id": self._card.environment,
                "seed": script_arguments["seed"],
                "idx": 0,
                "capture_video": False,
                "run_name": self._card.algorithm,
                "gamma": script_arguments.get("gamma", 0.99),
            }
            wanted = inspect.signature(module.make_env).parameters
            thunk = module.make_env(**{name: given[name] for name in wanted})
            envs = gymnasium.vector.SyncVectorEnv([lambda: _as_gymnasium(thunk())] * count)
        freeze_normalisation(envs, self._folder)
        return envs

    def _make_whole(self, names: Mapping[str, Any], arguments: dict[str, Any]) -> WholeVector:
        """The script has no function for it: what its main block does to make `envs` is done here."""
        players = 2 if family_of(self._card.environment).name == "maatari" else 1
        arguments["num_envs"] += -arguments["num_envs"] % players
        script_names = {**names, "args": SimpleNamespace(**arguments)}
        exec(self._entry.script.environments, script_names)
        return WholeVector(script_names["envs"])


def _as_gymnasium(env: Any) -> Any:
    if isinstance(env, gymnasium.Env):
        return env
    from cleanrl_worker.bridge import ToGymnasium

    return ToGymnasium(env)


def freeze_normalisation(envs: Any, folder: Path) -> None:
    """Observations are normalised as at the end of training, and no further learned from."""
    state = read_state(folder)
    saved = [node for node in state.environments if node["class"] == "NormalizeObservation"]
    if not saved:
        return
    fields = saved[0]["fields"]["obs_rms"]["fields"]
    unpacker = Unpacker(read_arrays(folder))
    for item in environments_in(envs):
        if isinstance(item, gymnasium.wrappers.NormalizeObservation):
            item.obs_rms.mean, item.obs_rms.var = unpacker.unpack(fields["mean"]), unpacker.unpack(fields["var"])
            item.obs_rms.update = lambda batch: None


def run_batched_evaluation(config: CleanRLWorkerConfig, run: Run, folder: Path) -> dict[str, Any]:
    """Let the policy play: `eval_repeats` times `eval_episodes` episodes, `eval_batch_size` environments at a time."""
    extras, card = config.extras, verify(folder)
    videos = run.folder / "videos" if extras.capture_video else None
    maker = EvaluationEnvironments(config, folder, card, videos)
    policy = NetworkPolicy(card, folder, maker.make(1))
    seed = config.seed if config.seed is not None else 0
    episodes: list[dict[str, Any]] = []
    repeats: list[dict[str, Any]] = []
    for repeat in range(extras.eval_repeats):
        run.telemetry.stage(f"repeat {repeat + 1}", index=repeat + 1, total=extras.eval_repeats)
        played = _play(config, run, maker, policy, seed + 1000 * repeat, episodes)
        if not played:
            break
        repeats.append({"seed": seed + 1000 * repeat, **summarise(played)})
    summary = {
        "algorithm": card.algorithm,
        "environment": card.environment,
        "checkpoint": str(folder),
        "checkpoint_step": card.step,
        "deterministic": extras.deterministic,
        "gamma": extras.eval_gamma,
        **summarise(episodes),
        "repeats": repeats,
    }
    document = {**summary, "per_episode": episodes}
    write_atomic(run.folder / "eval_summary.json", msgspec.json.format(msgspec.json.encode(document)))
    run.manifest.add("evaluation", Path("eval_summary.json"))
    if videos is not None:
        run.manifest.add("video", videos)
    return summary


def _play(
    config: CleanRLWorkerConfig,
    run: Run,
    maker: EvaluationEnvironments,
    policy: NetworkPolicy,
    seed: int,
    episodes: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """One repeat. Every environment plays its own share of episodes, so that short ones do not crowd out the long."""
    extras = config.extras
    envs = maker.make(min(extras.eval_batch_size, extras.eval_episodes), seed)
    batch, memory = envs.num_envs, policy.memory(envs.num_envs)
    shares = [extras.eval_episodes // batch + (index < extras.eval_episodes % batch) for index in range(batch)]
    told = [0] * batch
    steps = sum(episode["length"] for episode in episodes)
    played: list[dict[str, Any]] = []
    observations, _ = envs.reset(seed=seed)
    while len(played) < extras.eval_episodes and run.poll() is not Command.STOP:
        actions = policy.actions(observations, memory, deterministic=extras.deterministic)
        observations, _, terminated, truncated, _ = envs.step(actions)
        memory.ended(np.logical_or(terminated, truncated))
        for index, record in enumerate(maker.records):
            while told[index] < min(len(record.finished), shares[index]):
                episode = {**record.finished[told[index]], "env": index}
                told[index] += 1
                steps += episode["length"]
                played.append(episode)
                episodes.append(episode)
                extra = {"discounted_return": episode["discounted_return"]}
                run.telemetry.episode(
                    steps, len(episodes) - 1, episode["return"], episode["length"], env=index, extra=extra
                )
    if played:
        run.telemetry.metric(steps, {f"eval/{name}": value for name, value in scalars(summarise(played)).items()})
    envs.close()
    return played


def summarise(episodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean, spread and the mean's 95% confidence interval (bootstrap) of returns, discounted returns and lengths."""
    summary: dict[str, Any] = {"episodes": len(episodes)}
    if episodes:
        for name in ("return", "discounted_return", "length"):
            summary[name] = describe([episode[name] for episode in episodes])
    return summary


def describe(values: list[float]) -> dict[str, Any]:
    array, mean = np.asarray(values, dtype=np.float64), mean_of(values)
    return {
        "mean": mean.value,
        "std": float(array.std(ddof=1)) if len(array) > 1 else 0.0,
        "min": float(array.min()),
        "max": float(array.max()),
        "median": float(np.median(array)),
        "ci95": [mean.low, mean.high],
    }


def scalars(summary: Mapping[str, Any]) -> dict[str, float]:
    return {
        f"{name}_{key}": item[key]
        for name, item in summary.items()
        if isinstance(item, dict)
        for key in ("mean", "std")
    }
