"""Configs are checked field by field; every error says what was given, what is allowed and what was probably meant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mosaic.worker.capabilities import WorkerCapabilities
from mosaic.worker.config import build_config, read_config_file, worker_config
from mosaic.worker.description import Algorithm, ConfigFields, check_config, describe
from mosaic.worker.schema import schema_of
from mosaic.worker.validation import ConfigError, allowed_text, check


@dataclass(frozen=True)
class Optimizer:
    name: Literal["adam", "sgd"] = "adam"
    betas: tuple[float, ...] = (0.9, 0.999)


@dataclass(frozen=True)
class Config:
    run_id: str
    algorithm: Literal["ppo", "dqn"] = "ppo"
    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 1e-3
    total_timesteps: Annotated[int, Meta(ge=1)] = 1000
    seed: Annotated[int, Meta(ge=0)] | None = None
    optimizer: Optimizer = field(default_factory=Optimizer)
    params: dict[str, Any] = field(default_factory=dict)
    tags: Annotated[list[str], Meta(max_length=2)] = field(default_factory=list)


@dataclass(frozen=True)
class DqnParams:
    buffer_size: Annotated[int, Meta(ge=1)] = 1000


SCHEMA = schema_of(Config)
DESCRIBED = {"ppo": Algorithm("PPO", {"type": "object"}), "dqn": Algorithm("DQN", schema_of(DqnParams))}
DESCRIPTION = describe(
    capabilities=WorkerCapabilities(worker_type="example"),
    version="1",
    title="Example",
    summary="",
    config_schema=SCHEMA,
    fields=ConfigFields(params="params"),
    algorithms=DESCRIBED,
    example_config={},
)


@dataclass(frozen=True)
class Open:
    """Its algorithms are not known to its own schema."""

    algorithm: str = "ppo"
    params: dict[str, Any] = field(default_factory=dict)


OPEN = describe(
    capabilities=WorkerCapabilities(worker_type="example"),
    version="1",
    title="Example",
    summary="",
    config_schema=schema_of(Open),
    fields=ConfigFields(params="params"),
    algorithms=DESCRIBED,
    example_config={},
    not_offered={"dreamer": "it fails at its first update"},
)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("dqm", "got \"dqm\" (string), allowed: one of ppo, dqn; did you mean 'dqn'?"),
        (
            "dreamer",
            'got "dreamer" (string), allowed: one of ppo, dqn (dreamer is not offered: it fails at its first update)',
        ),
    ],
)
def test_algorithm_that_is_not_there_is_refused_with_the_reason(algorithm: str, message: str) -> None:
    _, (error,) = check_config(OPEN, {"algorithm": algorithm})
    assert error.message == f"field 'algorithm': {message}"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "field 'run_id': missing, allowed: string"),
        (
            {"run_id": "r", "learning_rat": 1},
            "field 'learning_rat': unknown (got 1 (integer)); did you mean 'learning_rate'?",
        ),
        (
            {"run_id": "r", "learning_rate": "fast"},
            "field 'learning_rate': got \"fast\" (string), allowed: number > 0 and <= 1",
        ),
        (
            {"run_id": "r", "learning_rate": 0},
            "field 'learning_rate': got 0 (integer), allowed: number > 0 and <= 1",
        ),
        (
            {"run_id": "r", "total_timesteps": 1.5},
            "field 'total_timesteps': got 1.5 (number), allowed: integer >= 1",
        ),
        (
            {"run_id": "r", "total_timesteps": True},
            "field 'total_timesteps': got true (boolean), allowed: integer >= 1",
        ),
        ({"run_id": "r", "seed": -1}, "field 'seed': got -1 (integer), allowed: integer >= 0 or null"),
        (
            {"run_id": "r", "algorithm": "PPO"},
            'field \'algorithm\': got "PPO" (string), allowed: one of "dqn", "ppo"; did you mean \'ppo\'?',
        ),
        (
            {"run_id": "r", "optimizer": {"name": "adm"}},
            'field \'optimizer.name\': got "adm" (string), allowed: one of "adam", "sgd"; did you mean \'adam\'?',
        ),
        (
            {"run_id": "r", "optimizer": {"betas": [0.9, None]}},
            "field 'optimizer.betas[1]': got null, allowed: number",
        ),
        (
            {"run_id": "r", "tags": ["a", "b", "c"]},
            'field \'tags\': got ["a", "b", "c"] (array), allowed: array of at most 2 items',
        ),
        (
            {"run_id": "r", "algorithm": "dqn", "buffer_size": 3},
            "field 'buffer_size': unknown here; it is a hyperparameter: give it as 'params.buffer_size'",
        ),
        (
            {"run_id": "r", "algorithm": "dqn", "params": {"buffer_siz": 3}},
            "field 'params.buffer_siz': unknown (got 3 (integer)); did you mean 'buffer_size'?",
        ),
    ],
)
def test_each_error_names_field_value_and_what_is_allowed(config: dict[str, Any], message: str) -> None:
    _, errors = check_config(DESCRIPTION, config)
    assert [error.message for error in errors] == [message]


def test_all_errors_are_found_at_once() -> None:
    _, errors = check_config(DESCRIPTION, {"learning_rate": 2, "optimizer": {"name": 3}, "x": 1})
    assert [error.field for error in errors] == ["learning_rate", "optimizer.name", "x", "run_id"]
    _, errors = check_config(
        DESCRIPTION, {"run_id": "r", "seed": "s", "algorithm": "dqn", "params": {"buffer_size": 0}}
    )
    assert [error.field for error in errors] == ["seed", "params.buffer_size"]


def test_a_number_in_scientific_notation_is_an_integer_where_one_is_asked_for() -> None:
    config = build_config(Config, DESCRIPTION, {"run_id": "r", "total_timesteps": 1e6, "learning_rate": 1})
    assert config.total_timesteps == 1_000_000
    assert isinstance(config.total_timesteps, int)
    assert config.learning_rate == 1.0


def test_nested_form_takes_the_run_id_of_the_job() -> None:
    job = {"run_id": "job", "metadata": {"worker": {"config": {"seed": 3}}}}
    assert worker_config(job) == {"run_id": "job", "seed": 3}
    with pytest.raises(ConfigError, match=r"field 'metadata\.worker': missing, allowed: an object"):
        worker_config({"metadata": {}})


@pytest.mark.parametrize(
    ("content", "message"), [(b"{", "not valid JSON"), (b"[]", "got a JSON list"), (b"\xff", "JSON")]
)
def test_a_file_that_is_no_config_is_told_in_one_line(content: bytes, message: str, tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_config_file(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        read_config_file(tmp_path / "none.json")


CONFIGS = st.builds(
    Config,
    run_id=st.text(),
    algorithm=st.sampled_from(["ppo", "dqn"]),
    learning_rate=st.floats(min_value=0, max_value=1, exclude_min=True),
    total_timesteps=st.integers(min_value=1),
    seed=st.none() | st.integers(min_value=0),
    optimizer=st.builds(Optimizer, name=st.sampled_from(["adam", "sgd"])),
    tags=st.lists(st.text(), max_size=2),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(CONFIGS)
def test_every_config_that_the_dataclass_can_hold_passes_unchanged(config: Config) -> None:
    plain = msgspec.to_builtins(config)
    normalised, errors = check(plain, SCHEMA)
    assert errors == []
    assert msgspec.convert(normalised, Config) == config


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), JSON))
def test_whatever_passes_can_be_built_and_whatever_fails_names_a_field(config: dict[str, Any]) -> None:
    normalised, errors = check(config, SCHEMA)
    if errors:
        assert all(error.field and error.message and "\n" not in error.message for error in errors)
    else:
        msgspec.convert(normalised, Config)


def test_what_is_allowed_reads_like_a_sentence() -> None:
    assert allowed_text(SCHEMA["properties"]["seed"]) == "integer >= 0 or null"
    assert (
        allowed_text({"type": "string", "minLength": 1, "pattern": "^a"})
        == "string of at least 1 characters matching ^a"
    )
    lengths = {"type": "array", "minItems": 1, "maxItems": 3}
    assert allowed_text(lengths) == "array of at least 1 and at most 3 items"
