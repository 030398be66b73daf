"""JSON Schema from typed dataclasses: the one description from which validation, flags, forms and docs come."""

from __future__ import annotations

from typing import Any

import msgspec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: type, *, title: str = "", version: int = 1) -> dict[str, Any]:
    """The schema of a dataclass; bounds and descriptions come from `Annotated[..., msgspec.Meta(...)]`."""
    schema = msgspec.json.schema(kind)
    definitions = schema.get("$defs", {})
    if "$ref" in schema:
        schema = {**definitions.pop(schema["$ref"].removeprefix("#/$defs/"))}
    for part in (schema, *definitions.values()):
        if "properties" in part:
            part["additionalProperties"] = False
    result = {"$schema": DIALECT, "version": version, **schema}
    if title:
        result["title"] = title
    if definitions:
        result["$defs"] = definitions
    return result
