"""Ray Tune runs a population's members and decides who goes on from whom; here it is told how, and made to tell.

Tune's own files, its output and its way to end at Ctrl-C are left out: all of that is the run's.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ray import tune
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.search.basic_variant import BasicVariantGenerator

from mosaic.worker.config import as_dict
from ray_worker.config import RayWorkerConfig
from ray_worker.mutations import Range, mutations_of
from ray_worker.population_trial import GENERATION, SCORE, PopulationTrial

# A member whose process dies goes on from what it saved last, so many times.
RESTARTS = 3
# What Tune keeps of each member: the states that others may be about to take over.
KEEP = 4
SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}


class Listener(Protocol):
    """Who is told what happens, and asked whether to go on. Members are named by Tune's ids of their trials."""

    @property
    def is_ending(self) -> bool: ...

    def hear(self, trial_id: str, result: dict[str, Any]) -> bool: ...

    def is_over(self, running: int) -> bool: ...

    def obey(self) -> None: ...

    def saved(self, trial_id: str, folder: str) -> None: ...

    def taken_over(self, trial_id: str, donor_id: str, folder: str, hyperparameters: dict[str, Any]) -> None: ...

    def lost(self, trial_id: str) -> None: ...

    def failed(self, trial_id: str, error: str) -> None: ...


def tune_population(
    listener: Listener,
    config: RayWorkerConfig,
    folder: Path,
    *,
    hyperparameters: Sequence[dict[str, Any]],
    resume: Sequence[str],
    generation: int,
) -> None:
    """Train members with these hyperparameters, from these folders (or none), until the listener ends it."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1)}
    os.environ.update(SETTINGS)
    ear = _Ear(listener)
    try:
        tune.run(
            PopulationTrial,
            name="population",
            storage_path=str(folder),
            config={
                "run": as_dict(config),
                "hyperparameters": tune.grid_search(list(hyperparameters)),
                "resume": list(resume),
                "generation": generation,
            },
            resources_per_trial=_resources(config),
            scheduler=_scheduler(listener, config),
            search_alg=_Starts(listener),
            stop=ear,
            callbacks=[_Callbacks(listener, ear)],
            checkpoint_config=tune.CheckpointConfig(num_to_keep=KEEP, checkpoint_at_end=True),
            max_failures=RESTARTS,
            reuse_actors=True,
            raise_on_failed_trial=False,
            verbose=0,
        )
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _scheduler(listener: Listener, config: RayWorkerConfig) -> PopulationBasedTraining:
    population, mutations = config.population, mutations_of(config)
    return _Scheduler(
        listener,
        time_attr=GENERATION,
        metric=SCORE,
        mode="max",
        perturbation_interval=1,
        hyperparam_mutations={"hyperparameters": {name: _domain(mutation) for name, mutation in mutations.items()}},
        custom_explore_fn=functools.partial(_fit, mutations=mutations),
        quantile_fraction=population.replaced,
        resample_probability=population.resample_probability,
        log_config=False,
        synch=True,
    )


class _Ear(tune.Stopper):
    """Tune shows it every result before anybody else, and asks it after every event whether to go on."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.running = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self._listener.hear(trial_id, result)

    def stop_all(self) -> bool:
        return self._listener.is_over(self.running)


class _Callbacks(tune.Callback):
    def __init__(self, listener: Listener, ear: _Ear) -> None:
        self._listener = listener
        self._ear = ear

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        self._listener.obey()

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        self._ear.running = sum(trial.status == "RUNNING" for trial in trials)

    def on_checkpoint(self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **_: Any) -> None:
        self._listener.saved(trial.trial_id, checkpoint.path)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._listener.lost(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._listener.failed(trial.trial_id, f"{trial.get_error() or 'its process died'}".strip().split("\n")[-1])


class _Starts(BasicVariantGenerator):
    """Tune ends a process at each exchange, and starts another one, once it expects no more trials."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    def is_finished(self) -> bool:
        return super().is_finished() and self._listener.is_ending


class _Scheduler(PopulationBasedTraining):
    """Tune's own, which tells who goes on from whom."""

    def __init__(self, listener: Listener, **settings: Any) -> None:
        super().__init__(**settings)
        self._listener = listener

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Keep a process for each member while they wait for each other: starting one takes many seconds."""
        super().on_trial_add(tune_controller, trial)
        tune_controller._actor_cache.increase_max(trial.placement_group_factory)

    def _exploit(self, tune_controller: Any, trial: Any, trial_to_clone: Any) -> None:
        super()._exploit(tune_controller, trial, trial_to_clone)
        self._listener.taken_over(
            trial.trial_id, trial_to_clone.trial_id, trial.checkpoint.path, trial.config["hyperparameters"]
        )


def _resources(config: RayWorkerConfig) -> PlacementGroupFactory:
    """A process that trains, and those that play for it."""
    resources = config.resources
    own = {"CPU": 1.0, **({"GPU": resources.num_gpus} if resources.num_gpus else {})}
    return PlacementGroupFactory([own, *[{"CPU": float(resources.num_cpus)}] * resources.num_workers])


def _domain(mutation: Any) -> Any:
    if not isinstance(mutation, Range):
        return mutation
    if mutation.whole:
        kind = tune.lograndint if mutation.log else tune.randint
        return kind(int(mutation.low), int(mutation.high) + 1)
    return (tune.loguniform if mutation.log else tune.uniform)(mutation.low, mutation.high)


def _fit(config: dict[str, Any], mutations: Mapping[str, Any]) -> dict[str, Any]:
    """Tune changes numbers by a fifth, whatever their bounds are."""
    for name, mutation in mutations.items():
        if isinstance(mutation, Range):
            config["hyperparameters"][name] = mutation.fit(config["hyperparameters"][name])
    return config
