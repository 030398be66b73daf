"""`mosaic train`: flags made from a worker's schema give the config that was meant, or say what is allowed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mosaic.cli.flags import ConfigOption, given_values, put_value
from mosaic.cli.train import config_options
from mosaic.worker import Algorithm, ConfigFields, WorkerCapabilities, schema_of
from mosaic.worker.description import check_config, describe


@dataclass(frozen=True)
class Optimizer:
    kind: Literal["sgd", "adam"] = "adam"
    weight_decay: Annotated[float, Meta(ge=0, description="Pull towards zero")] = 0.0


@dataclass(frozen=True)
class Config:
    run_id: str = ""
    algorithm: Literal["plain", "fancy"] = "plain"
    env_id: Annotated[str, Meta(description="Which environment")] = "CartPole-v1"
    total_timesteps: Annotated[int, Meta(ge=1)] = 1000
    name: str = ""
    target: float | None = None
    render: bool = False
    hidden_sizes: list[int] = field(default_factory=lambda: [64, 64])
    optimizer: Optimizer = Optimizer()
    extras: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plain:
    learning_rate: Annotated[float, Meta(gt=0, le=1, description="Step size")] = 0.1


@dataclass(frozen=True)
class Fancy:
    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 0.01
    trace_decay: Annotated[float, Meta(ge=0, le=1)] = 0.9
    render: Annotated[int, Meta(ge=0, description="Collides with the config's")] = 0


DESCRIPTION = describe(
    capabilities=WorkerCapabilities(worker_type="toy"),
    version="1",
    title="Toy",
    summary="",
    config_schema=schema_of(Config),
    fields=ConfigFields(params="params"),
    algorithms={"plain": Algorithm("Plain", schema_of(Plain)), "fancy": Algorithm("Fancy", schema_of(Fancy))},
    example_config={},
)


def options_of(algorithm: str) -> list[ConfigOption]:
    return config_options(DESCRIPTION, algorithm, {"--name", "--config"})


def config_from(*arguments: str, algorithm: str = "plain") -> dict[str, Any]:
    options = options_of(algorithm)
    config: dict[str, Any] = {}

    @click.pass_context
    def take(context: click.Context, **_: Any) -> None:
        for path, value in given_values(context, options):
            put_value(config, path, value)

    click.Command("train", params=list(options), callback=take).main(list(arguments), standalone_mode=False)
    return config


def refusal(*arguments: str, algorithm: str = "plain") -> str:
    with pytest.raises(click.UsageError) as caught:
        config_from(*arguments, algorithm=algorithm)
    return caught.value.format_message()


def test_only_what_was_typed_goes_into_the_config() -> None:
    assert config_from() == {}
    assert config_from("--env-id", "Taxi-v3") == {"env_id": "Taxi-v3"}


def test_algorithm_that_is_not_offered_is_refused_with_the_reason() -> None:
    @dataclass(frozen=True)
    class Open:
        algorithm: str = "plain"
        params: dict[str, Any] = field(default_factory=dict)

    described = {**DESCRIPTION, "config_schema": schema_of(Open), "not_offered": {"bold": "it never ends"}}
    (option, *_) = config_options(described, "plain", set())
    with pytest.raises(click.UsageError) as caught:
        option.type_cast_value(click.Context(click.Command("train")), "bold")
    assert 'got \'bold\', allowed: one of "plain", "fancy" (bold is not offered: it never ends)' in str(caught.value)


def test_hyperparameters_go_where_the_worker_keeps_them() -> None:
    assert config_from("--learning-rate", "3e-4") == {"params": {"learning_rate": 3e-4}}
    assert config_from("--trace-decay", "0.5", algorithm="fancy") == {"params": {"trace_decay": 0.5}}


def test_nested_groups_are_flattened() -> None:
    config = config_from("--optimizer-kind", "sgd", "--optimizer-weight-decay", "1")
    assert config == {"optimizer": {"kind": "sgd", "weight_decay": 1.0}}


def test_integers_may_be_written_the_way_people_do() -> None:
    for text in ("1000000", "1e6", "1_000_000"):
        assert config_from("--total-timesteps", text) == {"total_timesteps": 1_000_000}


def test_booleans_lists_nulls_and_open_objects() -> None:
    assert config_from("--render") == {"render": True}
    assert config_from("--no-render") == {"render": False}
    assert (
        config_from("--hidden-sizes", "32,16")
        == config_from("--hidden-sizes", "[32, 16]")
        == {"hidden_sizes": [32, 16]}
    )
    assert config_from("--target", "none") == {"target": None}
    assert config_from("--target", "-2.5") == {"target": -2.5}
    config = config_from("--extras", "mode=train", "--extras", "depth=3", "--extras", '{"a": [1]}')
    assert config == {"extras": {"mode": "train", "depth": 3, "a": [1]}}


def test_flags_that_others_have_already_get_a_prefix() -> None:
    assert config_from("--config-name", "x") == {"name": "x"}
    assert config_from("--param-render", "2", "--render", algorithm="fancy") == {
        "render": True,
        "params": {"render": 2},
    }


def test_the_algorithm_has_one_flag_that_all_workers_share() -> None:
    other = copy.deepcopy(DESCRIPTION)
    other["config_schema"]["properties"]["algo"] = other["config_schema"]["properties"].pop("algorithm")
    other["fields"]["algorithm"] = "algo"
    options = {flag: option for option in config_options(other, "plain", set()) for flag in option.opts}
    assert options["--algorithm"] is options["--algo"]
    assert options["--algorithm"].field.path == ("algo",)
    assert [option.opts for option in options_of("plain")].count(["--algorithm"]) == 1


def test_the_platform_fills_in_the_run_id() -> None:
    assert "--run-id" in refusal("--run-id", "x")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--learning-rate", "fast"), "got 'fast', allowed: number > 0 and <= 1"),
        (("--learning-rate", "0"), "got '0', allowed: number > 0 and <= 1"),
        (("--learning-rate", "nan"), "got 'nan', allowed: number > 0 and <= 1"),
        (("--total-timesteps", "1.5"), "got '1.5', allowed: integer >= 1"),
        (("--optimizer-kind", "adm"), 'got \'adm\', allowed: one of "adam", "sgd"'),
        (("--hidden-sizes", "a,b"), "got 'a,b', allowed: array"),
        (("--extras", "depth"), "allowed: KEY=VALUE"),
    ],
)
def test_a_value_that_is_not_allowed_is_told_with_what_is(arguments: tuple[str, str], expected: str) -> None:
    message = refusal(*arguments)
    assert expected in message
    assert arguments[0] in message


def test_help_shows_types_ranges_defaults_and_choices() -> None:
    command = click.Command("train", params=list(options_of("plain")))
    text = " ".join(CliRunner().invoke(command, ["--help"], terminal_width=200).output.split())
    assert "--learning-rate NUMBER Step size [default: 0.1; > 0 and <= 1]" in text
    assert "--algorithm fancy|plain" in text
    assert "--render / --no-render [default: off]" in text
    assert "--optimizer-weight-decay NUMBER Pull towards zero [default: 0.0; >= 0]" in text
    assert "--target NUMBER|none [default: none]" in text
    assert "--hidden-sizes LIST" in text


def as_text(value: Any) -> str:
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


values = {
    "--env-id": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    "--total-timesteps": st.integers(1, 10**12),
    "--target": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "--hidden-sizes": st.lists(st.integers(1, 4096), min_size=1, max_size=4),
    "--optimizer-kind": st.sampled_from(["sgd", "adam"]),
    "--optimizer-weight-decay": st.floats(0, 1e6),
    "--learning-rate": st.floats(0, 1, exclude_min=True),
}


@given(st.fixed_dictionaries({}, optional=values))
def test_whatever_is_allowed_arrives_as_it_was_meant(chosen: dict[str, Any]) -> None:
    config = config_from(*(f"{flag}={as_text(value)}" for flag, value in chosen.items()))
    paths = {option.field.flag: option.field.path for option in options_of("plain")}
    expected: dict[str, Any] = {}
    for flag, value in chosen.items():
        put_value(expected, paths[flag], value)
    assert config == expected
    assert check_config(DESCRIPTION, config)[1] == []
