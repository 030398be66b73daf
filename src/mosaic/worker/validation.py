"""Checking a JSON value against a JSON Schema, with errors that a person can act on.

The subset is the one that dataclasses produce and forms can show: types, bounds, enums, strings, nullable and other
unions, nested objects, arrays, `$ref` into `$defs`. Every error names the field, what was given and what is allowed;
unknown names get a suggestion. All errors of a config are found at once.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Schema = Mapping[str, Any]

_TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong with one field."""

    field: str
    message: str
    given: Any = None
    allowed: str = ""
    suggestion: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class ConfigError(Exception):
    """A config that cannot be used; `errors` holds one entry for each thing that is wrong with it."""

    def __init__(self, errors: FieldError | Iterable[FieldError]) -> None:
        self.errors: list[FieldError] = [errors] if isinstance(errors, FieldError) else list(errors)
        super().__init__("\n".join(error.message for error in self.errors))


def refuse(field: str, given: Any, allowed: str, *, suggestion: str | None = None) -> FieldError:
    """An error with the wording that all config errors share."""
    hint = f"; did you mean {suggestion!r}?" if suggestion else ""
    message = f"field {field!r}: got {describe_value(given)}, allowed: {allowed}{hint}"
    return FieldError(field, message, given, allowed, suggestion)


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    by_lower = {known.lower(): known for known in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def describe_value(value: Any) -> str:
    kind = "null" if value is None else _TYPE_NAMES.get(type(value), type(value).__name__)
    if value is None:
        return "null"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({kind})"


def check(value: Any, schema: Schema, *, field: str = "") -> tuple[Any, list[FieldError]]:
    """The value as the schema means it (1e6 is 1000000 where an integer is asked for), and what is wrong with it."""
    return _Checker(schema.get("$defs", {})).check(value, schema, field)


def allowed_text(schema: Schema, definitions: Schema | None = None) -> str:
    """What a schema allows, in words: `number > 0 and <= 1`."""
    schema = _resolve(schema, definitions or schema.get("$defs", {}))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(option) for option in schema["enum"])
    if "anyOf" in schema:
        parts = [allowed_text(option, definitions or schema.get("$defs", {})) for option in schema["anyOf"]]
        return " or ".join(dict.fromkeys(parts))
    kinds = schema.get("type", "anything")
    text = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    bounds = [
        f"{sign} {schema[key]}"
        for key, sign in (("exclusiveMinimum", ">"), ("minimum", ">="), ("exclusiveMaximum", "<"), ("maximum", "<="))
        if key in schema
    ]
    if bounds:
        text += " " + " and ".join(bounds)
    if "multipleOf" in schema:
        text += f" in steps of {schema['multipleOf']}"
    for least, most, what in (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items")):
        lengths = [f"at least {schema[least]}"] if least in schema else []
        lengths += [f"at most {schema[most]}"] if most in schema else []
        if lengths:
            text += f" of {' and '.join(lengths)} {what}"
    if "pattern" in schema:
        text += f" matching {schema['pattern']}"
    return text


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    while "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


class _Checker:
    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions

    def check(self, value: Any, schema: Schema, field: str) -> tuple[Any, list[FieldError]]:
        schema = _resolve(schema, self._definitions)
        if "anyOf" in schema:
            return self._check_union(value, schema, field)
        if "enum" in schema or "const" in schema:
            return self._check_choice(value, schema, field)
        kinds = schema.get("type")
        if kinds is None:
            return value, []
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            fits, normalised = _fits(value, kind)
            if fits:
                break
        else:
            return value, [self._refuse(value, schema, field)]
        if isinstance(normalised, dict):
            return self._check_object(normalised, schema, field)
        if isinstance(normalised, list):
            return self._check_array(normalised, schema, field)
        if not _within_bounds(normalised, schema):
            return value, [self._refuse(value, schema, field)]
        return normalised, []

    def _refuse(self, value: Any, schema: Schema, field: str, suggestion: str | None = None) -> FieldError:
        return refuse(field or "config", value, allowed_text(schema, self._definitions), suggestion=suggestion)

    def _check_choice(self, value: Any, schema: Schema, field: str) -> tuple[Any, list[FieldError]]:
        options = schema["enum"] if "enum" in schema else [schema["const"]]
        if any(option == value and type(option) is type(value) for option in options):
            return value, []
        names = [option for option in options if isinstance(option, str)]
        suggestion = closest(value, names) if isinstance(value, str) else None
        return value, [self._refuse(value, schema, field, suggestion)]

    def _check_union(self, value: Any, schema: Schema, field: str) -> tuple[Any, list[FieldError]]:
        failures: list[list[FieldError]] = []
        for option in schema["anyOf"]:
            normalised, errors = self.check(value, option, field)
            if not errors:
                return normalised, []
            failures.append(errors)
        # The option that was meant is the one whose errors lie inside the value rather than at it.
        inner = [errors for errors in failures if all(error.field != (field or "config") for error in errors)]
        return value, inner[0] if inner else [self._refuse(value, schema, field)]

    def _check_object(self, value: dict[str, Any], schema: Schema, field: str) -> tuple[Any, list[FieldError]]:
        properties: Schema = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        errors: list[FieldError] = []
        result: dict[str, Any] = {}
        for name, item in value.items():
            inner = properties.get(name, others)
            if inner is False:
                errors.append(_unknown(_join(field, name), name, item, properties))
            elif inner is True:
                result[name] = item
            else:
                result[name], found = self.check(item, inner, _join(field, name))
                errors += found
        for name in schema.get("required", ()):
            if name not in value:
                allowed = allowed_text(properties.get(name, {}), self._definitions)
                path = _join(field, name)
                errors.append(FieldError(path, f"field {path!r}: missing, allowed: {allowed}", None, allowed))
        return result, errors

    def _check_array(self, value: list[Any], schema: Schema, field: str) -> tuple[Any, list[FieldError]]:
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return value, [self._refuse(value, schema, field)]
        errors: list[FieldError] = []
        result = []
        prefix = schema.get("prefixItems", [])
        items = schema.get("items", True)
        for index, item in enumerate(value):
            inner = prefix[index] if index < len(prefix) else items
            if isinstance(inner, Mapping):
                item, found = self.check(item, inner, f"{field}[{index}]")
                errors += found
            result.append(item)
        return result, errors


def _unknown(path: str, name: str, value: Any, properties: Schema) -> FieldError:
    suggestion = closest(name, properties)
    allowed = ", ".join(sorted(properties)) or "no fields here"
    hint = f"did you mean {suggestion!r}?" if suggestion else f"allowed: {allowed}"
    return FieldError(
        path, f"field {path!r}: unknown (got {describe_value(value)}); {hint}", value, allowed, suggestion
    )


def _fits(value: Any, kind: str) -> tuple[bool, Any]:
    """Whether a JSON value is of a schema type, and the value normalised to it."""
    match kind:
        case "null":
            return value is None, None
        case "boolean":
            return isinstance(value, bool), value
        case "integer":
            if isinstance(value, float) and value.is_integer():
                return True, int(value)
            return isinstance(value, int) and not isinstance(value, bool), value
        case "number":
            if isinstance(value, int) and not isinstance(value, bool):
                return True, float(value)
            return isinstance(value, float), value
        case "string":
            return isinstance(value, str), value
        case "object":
            return isinstance(value, dict), value
        case "array":
            return isinstance(value, (list, tuple)), list(value) if isinstance(value, tuple) else value
        case _:
            raise ValueError(f"schema type {kind!r} is not one of JSON Schema's")


def _within_bounds(value: Any, schema: Schema) -> bool:
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            return False
        return "pattern" not in schema or re.search(schema["pattern"], value) is not None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
        and ("multipleOf" not in schema or _is_multiple(value, schema["multipleOf"]))
        and value == value  # NaN is within no bounds
    )


def _is_multiple(value: float, unit: float) -> bool:
    return abs(value / unit - round(value / unit)) < 1e-9
