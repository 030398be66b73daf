"""What a worker says of itself when asked with `--describe`: capabilities, config schema, algorithms, their parameters.

The platform keeps this answer beside the worker's environment and needs no worker process to check a config, build
flags or draw a form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from mosaic.worker.capabilities import WorkerCapabilities
from mosaic.worker.validation import FieldError, check, closest, refuse

CONTRACT_VERSION = 1


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of a worker: the schema of its hyperparameters and whatever else a chooser wants to know."""

    title: str
    params_schema: Mapping[str, Any]
    description: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ConfigFields:
    """Where in a worker's config the things lie that most workers have, as dotted paths; None: no such thing."""

    algorithm: str | None = "algorithm"
    params: str | None = None
    total_steps: str | None = "total_timesteps"
    environment: str | None = "env_id"
    seed: str | None = "seed"


def describe(
    *,
    capabilities: WorkerCapabilities,
    version: str,
    title: str,
    summary: str,
    config_schema: Mapping[str, Any],
    fields: ConfigFields,
    algorithms: Mapping[str, Algorithm],
    example_config: Mapping[str, Any],
    not_offered: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    return {
        "contract": CONTRACT_VERSION,
        "name": capabilities.worker_type,
        "version": version,
        "title": title,
        "description": summary,
        "capabilities": asdict(capabilities),
        "fields": asdict(fields),
        "config_schema": config_schema,
        "algorithms": {name: asdict(algorithm) for name, algorithm in algorithms.items()},
        "not_offered": dict(not_offered),
        "example_config": example_config,
    }


def value_at(config: Mapping[str, Any], path: str | None) -> Any:
    """The value at a dotted path, or None where there is none."""
    value: Any = config
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if path else None


def set_at(config: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a dotted path, making the objects on the way."""
    *parents, last = path.split(".")
    for name in parents:
        config = config.setdefault(name, {})
    config[last] = value


def default_at(schema: Mapping[str, Any], path: str) -> Any:
    """The default that a config schema gives at a dotted path, or None."""
    node: Mapping[str, Any] = schema
    for name in path.split("."):
        node = node.get("properties", {}).get(name, {})
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return node.get("default")


def check_config(description: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """A config as the worker will understand it, and everything that is wrong with it."""
    schema = description["config_schema"]
    fields = description["fields"]
    normalised, errors = check(dict(config), schema)
    if not fields["algorithm"] or not fields["params"] or not description["algorithms"]:
        return normalised, errors
    name = value_at(normalised, fields["algorithm"]) or default_at(schema, fields["algorithm"])
    algorithm = description["algorithms"].get(name) if isinstance(name, str) else None
    if algorithm is None:
        if all(error.field != fields["algorithm"] for error in errors):
            errors.append(_no_such_algorithm(description, name))
        return normalised, errors
    params_schema = algorithm["params_schema"]
    errors = [_point_to_params(error, fields["params"], params_schema) for error in errors]
    params = value_at(normalised, fields["params"])
    if isinstance(params, dict):
        params, found = check(params, params_schema, field=fields["params"])
        set_at(normalised, fields["params"], params)
        errors += found
    return normalised, errors


def _no_such_algorithm(description: Mapping[str, Any], name: Any) -> FieldError:
    allowed = "one of " + ", ".join(description["algorithms"])
    why = description.get("not_offered", {}).get(name)
    meant = closest(name, description["algorithms"]) if isinstance(name, str) and why is None else None
    given = f"{allowed} ({name} is not offered: {why})" if why else allowed
    return refuse(description["fields"]["algorithm"], name, given, suggestion=meant)


def _point_to_params(error: FieldError, path: str, params_schema: Mapping[str, Any]) -> FieldError:
    """A hyperparameter at the top level is told where it belongs."""
    if error.field not in params_schema.get("properties", {}) or "unknown" not in error.message:
        return error
    place = f"{path}.{error.field}"
    message = f"field {error.field!r}: unknown here; it is a hyperparameter: give it as {place!r}"
    return FieldError(error.field, message, error.given, error.allowed, place)
