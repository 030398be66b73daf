"""Loading a worker's config: flat JSON, or nested under `metadata.worker.config` of a full job descriptor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mosaic.worker.description import check_config
from mosaic.worker.validation import ConfigError, FieldError

C = TypeVar("C")


def read_config_file(path: Path) -> dict[str, Any]:
    """The worker's part of a config file, unchecked."""
    try:
        content = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ConfigError(FieldError("", f"config file {path}: {error.strerror}: give a readable JSON file")) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(FieldError("", f"config file {path}: not valid JSON: {error}")) from None
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise ConfigError(FieldError("", f"config file {path}: got a JSON {kind}, allowed: an object")) from None
    return worker_config(content)


def worker_config(content: dict[str, Any]) -> dict[str, Any]:
    """The worker's own config out of either form."""
    if "metadata" not in content:
        return content
    node: Any = content
    for depth, name in enumerate(("metadata", "worker", "config"), start=1):
        node = node.get(name) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            path = ".".join(("metadata", "worker", "config")[:depth])
            raise ConfigError(
                FieldError(path, f"field {path!r}: missing, allowed: an object (this is a job descriptor)")
            )
    config: dict[str, Any] = dict(node)
    if "run_id" in content:
        config.setdefault("run_id", content["run_id"])
    return config


def build_config(kind: type[C], description: Mapping[str, Any], config: Mapping[str, Any]) -> C:
    """The typed config, or a ConfigError with everything that is wrong."""
    normalised, errors = check_config(description, config)
    if errors:
        raise ConfigError(errors)
    try:
        return msgspec.convert(normalised, kind)
    except msgspec.ValidationError as error:
        # What only the dataclass itself knows (a check in its __post_init__).
        raise ConfigError(FieldError("", f"config: {error}")) from None


def as_dict(config: Any) -> dict[str, Any]:
    """The whole config, defaults included: msgspec leaves those of a dataclass out."""
    whole = dataclasses.asdict(config) if dataclasses.is_dataclass(config) and not isinstance(config, type) else config
    result: dict[str, Any] = msgspec.to_builtins(whole)
    return result
