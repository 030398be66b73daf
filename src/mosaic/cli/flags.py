"""Command-line flags from a worker's JSON Schema: names, types, ranges, choices, defaults and help come from it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from mosaic.worker.validation import allowed_text, check

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class ConfigField:
    """One value of a config that can be given on the command line."""

    path: tuple[str, ...]
    schema: Schema
    definitions: Schema
    flag: str

    @property
    def variable(self) -> str:
        return "config__" + "__".join(self.path).replace("-", "_")


def fields_of(
    schema: Schema,
    *,
    path: tuple[str, ...] = (),
    skip: Collection[str] = (),
    taken: Collection[str] = (),
    clash: str = "",
) -> Iterator[ConfigField]:
    """The leaves of an object schema, nested groups flattened; a flag that is `taken` gets the prefix `clash`."""
    definitions = schema.get("$defs", {})
    yield from _fields(schema, definitions, path, (), skip, taken, clash)


def _fields(
    schema: Schema,
    definitions: Schema,
    path: tuple[str, ...],
    names: tuple[str, ...],
    skip: Collection[str],
    taken: Collection[str],
    clash: str,
) -> Iterator[ConfigField]:
    for name, part in schema.get("properties", {}).items():
        if name in skip:
            continue
        resolved = _resolve(part, definitions)
        inner = (*names, name)
        if "properties" in resolved:
            yield from _fields(resolved, definitions, (*path, name), inner, (), taken, clash)
            continue
        flag = "--" + "-".join(inner).replace("_", "-").lower()
        if flag in taken:
            flag = f"--{clash}-{flag[2:]}"
        yield ConfigField((*path, name), resolved, definitions, flag)


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    while "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def kinds_of(schema: Schema, definitions: Schema) -> list[str]:
    """The JSON types that a schema admits, in its order."""
    schema = _resolve(schema, definitions)
    if "anyOf" in schema:
        found = [kind for option in schema["anyOf"] for kind in kinds_of(option, definitions)]
        return list(dict.fromkeys(found))
    if "enum" in schema or "const" in schema:
        options = schema["enum"] if "enum" in schema else [schema["const"]]
        return list(dict.fromkeys(_kind_of_value(option) for option in options))
    kinds = schema.get("type", ["string", "number", "boolean", "null", "array", "object"])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _kind_of_value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def choices_of(schema: Schema, definitions: Schema) -> list[str]:
    """The words to choose from, where the schema is a choice (also one that may be null)."""
    schema = _resolve(schema, definitions)
    if "anyOf" in schema:
        return [word for option in schema["anyOf"] for word in choices_of(option, definitions)]
    if schema.get("type") == "null":
        return ["none"]
    options = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return ["none" if option is None else str(option) for option in options]


class SchemaValue(click.ParamType[Any]):
    """A value typed as text, read as the schema means it, and checked against it."""

    def __init__(self, schema: Schema, definitions: Schema) -> None:
        self.schema = schema
        self.definitions = definitions
        self.kinds = kinds_of(schema, definitions)
        self.name = "|".join(_WORDS[kind] for kind in self.kinds)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parsed = parse_text(value, self.kinds) if isinstance(value, str) else value
        checked, errors = check(parsed, {**self.schema, "$defs": self.definitions})
        if errors:
            self.fail(f"got {value!r}, allowed: {allowed_text(self.schema, self.definitions)}", param, ctx)
        return checked

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        words = choices_of(self.schema, self.definitions)
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class AlgorithmName(SchemaValue):
    """One of a worker's algorithms; those that it does not offer are refused with the reason."""

    def __init__(self, names: Sequence[str], not_offered: Mapping[str, str]) -> None:
        super().__init__({"enum": list(names)}, {})
        self._not_offered = not_offered

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self._not_offered:
            allowed = allowed_text(self.schema, self.definitions)
            reason = f"{value} is not offered: {self._not_offered[value]}"
            self.fail(f"got {value!r}, allowed: {allowed} ({reason})", param, ctx)
        return super().convert(value, param, ctx)


_WORDS = {
    "string": "TEXT",
    "integer": "INTEGER",
    "number": "NUMBER",
    "boolean": "true|false",
    "null": "none",
    "array": "LIST",
    "object": "JSON",
}


def parse_text(text: str, kinds: Collection[str]) -> Any:
    """What was typed, as the first of the kinds that it can be; text that is none of them stays text, for the check."""
    lowered = text.strip().lower()
    if "null" in kinds and lowered in ("none", "null"):
        return None
    if "boolean" in kinds and lowered in _BOOLEANS:
        return _BOOLEANS[lowered]
    if "integer" in kinds or "number" in kinds:
        found = _parse_number(lowered)
        if found is not None:
            return found
    if "array" in kinds and "string" not in kinds:
        return _parse_json(text, list, [_parse_loose(part) for part in text.split(",") if part.strip()])
    if "object" in kinds and text.lstrip().startswith("{"):
        return _parse_json(text, dict, text)
    return text


_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _parse_number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0.0 else None


def _parse_json(text: str, kind: type, otherwise: Any) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return otherwise
    return value if isinstance(value, kind) else otherwise


def _parse_loose(text: str) -> Any:
    """A value of unknown type: JSON where it is some, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


class KeyValue(click.ParamType[dict[str, Any]]):
    """`key=value` (or a JSON object) for an object whose keys the schema leaves open."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if value.lstrip().startswith("{"):
            parsed = _parse_json(value, dict, None)
            if parsed is None:
                self.fail(f"got {value!r}, which is not a JSON object", param, ctx)
            return dict(parsed)
        key, equals, text = value.partition("=")
        if not equals or not key:
            self.fail(f"got {value!r}, allowed: KEY=VALUE (value as JSON or text) or a JSON object", param, ctx)
        return {key: _parse_loose(text)}


class ConfigOption(click.Option):
    """The flag of one config field."""

    def __init__(self, field: ConfigField, section: str) -> None:
        self.field = field
        self.section = section
        kinds = kinds_of(field.schema, field.definitions)
        declaration = field.flag
        settings: dict[str, Any] = {"help": _help(field, kinds)}
        if kinds == ["boolean"]:
            declaration = f"{field.flag}/--no-{field.flag[2:]}"
            settings["default"] = None
        elif "object" in kinds:
            settings.update(type=KeyValue(), multiple=True)
        else:
            settings.update(type=SchemaValue(field.schema, field.definitions), metavar=_metavar(field, kinds))
        super().__init__([declaration, field.variable], **settings)


def _metavar(field: ConfigField, kinds: list[str]) -> str:
    choices = choices_of(field.schema, field.definitions)
    if choices and all(kind in ("string", "null") for kind in kinds) and choices != ["none"]:
        joined = "|".join(choices)
        return joined if len(joined) <= 24 else "NAME"
    return "|".join(_WORDS[kind] for kind in kinds)


def _help(field: ConfigField, kinds: list[str]) -> str:
    extras = []
    if "default" in field.schema:
        default = field.schema["default"]
        if default not in ({}, ""):
            extras.append(f"default: {_show_default(default, kinds)}")
    allowed = _limits(field, kinds)
    if allowed:
        extras.append(allowed)
    text = str(field.schema.get("description") or field.schema.get("title") or "").strip()
    return f"{text}  [{'; '.join(extras)}]" if extras else text


def _show_default(default: Any, kinds: list[str]) -> str:
    if default is None:
        return "none"
    if kinds == ["boolean"]:
        return "on" if default else "off"
    if isinstance(default, list):
        return ",".join(str(item) for item in default) or "empty"
    return str(default)


def _limits(field: ConfigField, kinds: list[str]) -> str:
    """What the metavar does not already say about the values allowed."""
    choices = choices_of(field.schema, field.definitions)
    if choices and choices != ["none"]:
        return "" if _metavar(field, kinds) != "NAME" else "one of " + ", ".join(choices)
    if kinds == ["boolean"] or "object" in kinds:
        return ""
    text = allowed_text(field.schema, field.definitions)
    plain = {"string", "number", "integer", "null", "array"}
    options = [option for option in text.split(" or ") if option not in plain]
    shortened = [option.removeprefix("number ").removeprefix("integer ") for option in options]
    return " or ".join(shortened)


def given_values(ctx: click.Context, options: Collection[ConfigOption]) -> list[tuple[tuple[str, ...], Any]]:
    """The config values that were typed, by their paths."""
    values: list[tuple[tuple[str, ...], Any]] = []
    for option in options:
        assert option.name is not None
        if ctx.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[option.name]
        if option.multiple:
            values += [((*option.field.path, key), item) for part in value for key, item in part.items()]
        else:
            values.append((option.field.path, value))
    return values


def put_value(config: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a nested value, making the objects on the way."""
    for name in path[:-1]:
        inner = config.get(name)
        if not isinstance(inner, dict):
            inner = config[name] = {}
        config = inner
    config[path[-1]] = value
