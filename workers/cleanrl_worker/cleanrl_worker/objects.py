"""The state of objects that nobody made to be saved: environments, their wrappers, running statistics.

An object is its attributes. What is plain data or arrays is kept; links to other environments are followed; what
belongs to making or drawing the object is left alone, since the new process makes its own. If anything else is found,
the object cannot be brought back exactly, and the caller is told so.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from cleanrl_worker.packing import Node, Packer, Unpackable, Unpacker

# Attributes that say how an environment was made or is drawn, not where it stands.
MADE_WITH = frozenset(
    {"spec", "_cached_spec", "_saved_kwargs", "metadata", "env_fns", "_actions", "_control", "_session", "_watch"}
    | {"screen", "clock", "window", "surf", "render_mode"}
)
# Objects of these classes are their attributes too.
STATISTICS = frozenset({"RunningMeanStd", "RewardForwardFilter"})


def environments_in(vector: Any) -> Iterator[Any]:
    """A vector environment, and every environment and wrapper inside it, each once."""
    waiting, seen = [vector], set()
    while waiting:
        item = waiting.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        own = vars(item)
        waiting += [own[name] for name in ("env", "old_env", "venv") if name in own]
        waiting += list(own.get("envs", ()))


def capture_objects(items: list[Any], packer: Packer) -> tuple[list[Node], list[str]]:
    """The states of these objects, and what in them could not be kept."""
    lost: list[str] = []
    return [_capture(item, packer, lost) for item in items], lost


def restore_objects(items: list[Any], states: list[Node], unpacker: Unpacker) -> None:
    """Put objects of the same classes, newly made, where the captured ones were."""
    for item, state in zip(items, states, strict=True):
        restore_object(item, state, unpacker)


def capture_statistics(item: Any, packer: Packer) -> Node:
    return _capture(item, packer, [])


def restore_object(item: Any, state: Node, unpacker: Unpacker, *, statistics_only: bool = False) -> None:
    for name, node in state["fields"].items():
        current = vars(item).get(name)
        if isinstance(node, dict) and node["$"] == "object":
            restore_object(current, node, unpacker)
        elif statistics_only and type(item).__name__ not in STATISTICS:
            continue
        elif isinstance(node, dict) and node["$"] == "generator" and isinstance(current, np.random.Generator):
            # In place: others may hold the same generator.
            current.bit_generator.state = unpacker.unpack(node["state"])
        else:
            setattr(item, name, unpacker.unpack(node))


def same_shape(items: list[Any], states: list[Node]) -> bool:
    """Whether captured states belong to objects such as these."""
    return [type(item).__name__ for item in items] == [state["class"] for state in states]


def _capture(item: Any, packer: Packer, lost: list[str]) -> Node:
    kind = type(item).__name__
    fields: dict[str, Node] = {}
    for name, value in vars(item).items():
        if name in MADE_WITH or name in ("env", "old_env", "venv", "envs"):
            continue
        if _is_space(value):
            # A space is how the environment was made; but it draws samples.
            state = vars(value).get("_np_random")
            drawn = {} if state is None else {"_np_random": packer.pack(state)}
            fields[name] = {"$": "object", "class": type(value).__name__, "fields": drawn}
        elif type(value).__name__ in STATISTICS:
            fields[name] = _capture(value, packer, lost)
        elif not _belongs_to_making(value):
            try:
                fields[name] = packer.pack(value)
            except Unpackable as error:
                lost.append(f"{kind}.{name} ({error})")
    return {"$": "object", "class": kind, "fields": fields}


def _is_space(value: Any) -> bool:
    return type(value).__module__.startswith(("gym.spaces", "gymnasium.spaces"))


def _belongs_to_making(value: Any) -> bool:
    return isinstance(value, (ModuleType, type)) or inspect.isroutine(value) or callable(value) or _is_picture(value)


def _is_picture(value: Any) -> bool:
    """What an environment draws with: pygame's surfaces and the like, also several together."""
    if isinstance(value, (list, tuple)) and value:
        return all(_is_picture(item) for item in value)
    return type(value).__module__.startswith("pygame")
