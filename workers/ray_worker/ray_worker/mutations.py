"""Which hyperparameters differ within a population, from which values they start, and how they change. Needs no Ray."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from mosaic.worker import ConfigError, FieldError, refuse
from mosaic.worker.validation import check, closest
from ray_worker.algo_params import schemas
from ray_worker.cluster import needed_cpus
from ray_worker.config import RayWorkerConfig

FIELD = "population.mutations"
# What makes another network or another buffer of it: the state of one training would not fit the next.
FIXED = ("model_config", "replay_buffer_config", "twin_q", "dueling", "double_q", "n_step")


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number between two bounds."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def draw(self, random: np.random.Generator) -> float | int:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = random.uniform(low, high)
        return self.fit(math.exp(value) if self.log else value)

    def fit(self, value: float) -> float | int:
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value


Mutation = Range | list[Any]


def mutations_of(config: RayWorkerConfig) -> dict[str, Mutation]:
    """What a config lets differ, checked; a ConfigError says what is wrong with it."""
    known: Mapping[str, Any] = schemas()[config.training.algorithm]["properties"]
    found: dict[str, Mutation] = {}
    errors: list[FieldError] = []
    for name, given in config.population.mutations.items():
        if name not in known or name in FIXED:
            allowed = f"hyperparameters of {config.training.algorithm} that can change while it trains"
            suggestion = closest(name, [other for other in known if other not in FIXED])
            errors.append(refuse(FIELD, name, allowed, suggestion=suggestion))
            continue
        try:
            found[name] = _mutation(given, known[name], f"{FIELD}.{name}")
        except ConfigError as error:
            errors += error.errors
    if errors:
        raise ConfigError(errors)
    return found


def cpus_for_population(config: RayWorkerConfig) -> int:
    """For all members that train at the same time, their runner processes included."""
    one = 1 + needed_cpus(config.resources)
    there = len(os.sched_getaffinity(0)) // one
    return one * min(config.population.size, config.population.at_once or max(1, there))


def check_population(config: RayWorkerConfig) -> None:
    population = config.population
    if population.size == 0:
        return
    if population.size == 1:
        raise ConfigError(refuse("population.size", 1, "0 (no population) or at least 2"))
    if not mutations_of(config):
        raise ConfigError(refuse(FIELD, {}, 'at least one hyperparameter, such as {"lr": {"low": 1e-5, "high": 1e-2}}'))
    if config.resources.num_learners:
        raise ConfigError(refuse("resources.num_learners", config.resources.num_learners, "0 with a population"))


def starting_points(config: RayWorkerConfig) -> list[dict[str, Any]]:
    """Hyperparameters for each member; the first begins with what the config says, as far as it says anything."""
    random = np.random.default_rng(config.training.seed)
    given = config.training.hyperparameters
    points = []
    for index in range(config.population.size):
        drawn = {name: draw(mutation, random) for name, mutation in mutations_of(config).items()}
        points.append({**given, **drawn} if index else {**drawn, **given})
    return points


def draw(mutation: Mutation, random: np.random.Generator) -> Any:
    return mutation.draw(random) if isinstance(mutation, Range) else mutation[int(random.integers(len(mutation)))]


def _mutation(given: Any, schema: Mapping[str, Any], field: str) -> Mutation:
    if isinstance(given, list) and len(given) > 1:
        return [_checked(value, schema, field) for value in given]
    allowed = 'a list of at least two values, or an object such as {"low": 1e-5, "high": 1e-2, "log": true}'
    if not isinstance(given, Mapping):
        raise ConfigError(refuse(field, given, allowed))
    try:
        bounds = msgspec.convert(given, Range)
    except msgspec.ValidationError as error:
        raise ConfigError(refuse(field, given, f"{allowed} ({error})")) from None
    low, high = _checked(bounds.low, schema, field), _checked(bounds.high, schema, field)
    if low >= high or (bounds.log and low <= 0):
        raise ConfigError(refuse(field, given, "low < high, and low > 0 with log"))
    return Range(low, high, bounds.log, isinstance(low, int))


def _checked(value: Any, schema: Mapping[str, Any], field: str) -> Any:
    checked, errors = check(value, schema, field=field)
    if errors:
        raise ConfigError(errors)
    return checked
