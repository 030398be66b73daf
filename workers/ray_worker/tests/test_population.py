"""Populations: who starts with what, who goes on from whom, and that it is saved, told and resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import Told, make_config
from mosaic.worker import ConfigError
from mosaic.worker.checkpoints import verify
from mosaic.worker.messages import ChildStarted, Episode, Metric, RunCompleted
from ray_worker import EvaluationConfig, RayPolicyConfig, create_ray_actor, run_evaluation
from ray_worker.mutations import mutations_of, starting_points
from ray_worker.population import FILE, PopulationState

Train = Callable[..., Told]

MUTATIONS = {"lr": {"low": 1e-5, "high": 1e-2, "log": True}, "entropy_coeff": [0.0, 0.01, 0.05]}


def population_config(total_timesteps: int = 400, **changes: Any) -> Any:
    population = {"size": 2, "at_once": 1, "interval": 200, "mutations": MUTATIONS, "replaced": 0.5, **changes}
    return make_config(population=population, training={"total_timesteps": total_timesteps})


def test_members_start_within_the_bounds_and_the_first_with_what_is_given() -> None:
    config = population_config(size=40, mutations={**MUTATIONS, "num_epochs": {"low": 1, "high": 9}})
    points = starting_points(config)
    assert points[0]["num_epochs"] == 1, "as the config says"
    assert all(1e-5 <= point["lr"] <= 1e-2 for point in points)
    assert sum(point["lr"] < 1e-3 for point in points) > 20, "magnitudes alike"
    assert {point["entropy_coeff"] for point in points} == {0.0, 0.01, 0.05}
    assert {type(point["num_epochs"]) for point in points} == {int}
    assert len({point["num_epochs"] for point in points}) > 5
    assert starting_points(config) == points
    assert mutations_of(config)["num_epochs"].fit(11.3) == 9  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("population", "field", "words"),
    [
        ({"size": 1}, "population.size", "at least 2"),
        ({"mutations": {}}, "population.mutations", "at least one hyperparameter"),
        ({"mutations": {"learning_rate": [1, 2]}}, "population.mutations", "hyperparameters of PPO"),
        ({"mutations": {"model_config": [1, 2]}}, "population.mutations", "can change while it trains"),
        ({"mutations": {"lr": [0.1]}}, "population.mutations.lr", "at least two values"),
        ({"mutations": {"lr": {"low": 0.1}}}, "population.mutations.lr", "high"),
        ({"mutations": {"lr": {"low": 0.1, "high": 0.01}}}, "population.mutations.lr", "low < high"),
        ({"mutations": {"gamma": {"low": 0.5, "high": 2}}}, "population.mutations.gamma", "<= 1"),
        ({"mutations": {"num_epochs": [1, "many"]}}, "population.mutations.num_epochs", "integer"),
    ],
)
def test_what_cannot_be_a_population_is_refused(population: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        population_config(**population)
    (error,) = caught.value.errors
    assert error.field == field
    assert words in error.message
    assert "\n" not in error.message


def members_of(checkpoint: Path) -> PopulationState:
    return msgspec.json.decode((checkpoint / FILE).read_bytes(), type=PopulationState)


@pytest.mark.timeout(600)
def test_a_population_exchanges_is_told_saved_and_resumed(train: Train) -> None:
    told = train(population_config())
    assert set(told.children) == {"trial-0", "trial-1"}
    begun = {
        name: [one for one in messages if isinstance(one, ChildStarted)] for name, messages in told.children.items()
    }
    (taken,) = [(name, one) for name, starts in begun.items() for one in starts if one.parent]
    heir, lineage = taken
    assert {heir, lineage.parent} == {"trial-0", "trial-1"}
    assert lineage.from_step is not None
    assert lineage.from_step >= 200
    assert lineage.config != begun[heir][0].config
    assert lineage.changed
    for name, (there, here) in lineage.changed.items():
        assert there == begun[lineage.parent][0].config[name]
        assert here == lineage.config[name]
    for messages in told.children.values():
        assert {Metric, Episode} <= set(map(type, messages))
        assert isinstance(messages[-1], RunCompleted)
        assert messages[-1].reason == "finished"
    after = told.children[heir][told.children[heir].index(lineage) :]
    assert all(one.step > lineage.from_step for one in after if isinstance(one, Metric)), "it goes on from there"

    step, checkpoint = told.checkpoints[-1]
    assert verify(checkpoint).extra["population"] == 2
    state = members_of(checkpoint)
    assert {member.name: member.parent for member in state.members} == {heir: lineage.parent, lineage.parent: ""}
    actor = create_ray_actor(RayPolicyConfig(checkpoint, algorithm="PPO", env_id="CartPole-v1"))
    assert run_evaluation(EvaluationConfig(actor, num_episodes=2)).length.value > 0
    assert told.summary["best"] in told.children

    again = train(population_config(total_timesteps=step + 150), resume=checkpoint)
    for member in state.members:
        start = again.children[member.name][0]
        assert isinstance(start, ChildStarted)
        assert start.from_step == member.step
        assert start.config == member.hyperparameters
        metrics = [one for one in again.children[member.name] if isinstance(one, Metric)]
        assert min(one.step for one in metrics) > member.step
    assert not list(again.folder.glob("tune"))
