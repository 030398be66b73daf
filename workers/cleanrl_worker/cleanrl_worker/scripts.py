"""Reading a CleanRL script without running it: its hyperparameters, its main loop, what that loop carries along.

A script is one file: imports, `parse_args`, classes, and an `if __name__ == "__main__":` block whose last `for` over a
`range` is the main loop. Its argument parser needs only the standard library, so it can be asked without torch.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mosaic.worker.schema import DIALECT

# What the worker itself decides: these flags are filled from the config or make no sense below the platform.
OWN_FLAGS = frozenset(
    {
        "exp_name",
        "env_id",
        "total_timesteps",
        "seed",
        "cuda",
        "track",
        "wandb_project_name",
        "wandb_entity",
        "capture_video",
        "save_model",
        "upload_model",
        "hf_entity",
    }
)


class NotAScript(Exception):
    """A module that does not look like a CleanRL script."""


@dataclass(frozen=True)
class MainLoop:
    """The loop that the training is: where it starts and which names it hands from one round to the next."""

    line: int
    target: str
    carried: frozenset[str]


@dataclass(frozen=True)
class Script:
    module: str
    path: Path
    parser: argparse.ArgumentParser
    main_loop: MainLoop
    environments: CodeType  # the statements that make `envs`, out of the script's own names and `args`

    @property
    def flags(self) -> Mapping[str, argparse.Action]:
        """All arguments of the script by name."""
        return {action.dest: action for action in self.parser._actions if action.dest != "help"}

    def default(self, name: str) -> Any:
        return self.flags[name].default

    def params_schema(self) -> dict[str, Any]:
        """The script's own hyperparameters as JSON Schema."""
        properties = {name: _schema(action) for name, action in self.flags.items() if name not in OWN_FLAGS}
        return {"$schema": DIALECT, "type": "object", "properties": properties, "additionalProperties": False}

    def argv(self, values: Mapping[str, Any]) -> list[str]:
        """Values by name as the script's command line. A value of None is the script's default and is left out."""
        words: list[str] = []
        for name, value in values.items():
            if value is None:
                continue
            words.append(self.flags[name].option_strings[0])
            words += [str(item) for item in value] if isinstance(value, list) else [str(value)]
        return words


@cache
def read_script(module: str) -> Script:
    """Read the script behind a module name. Only its `parse_args` is executed, with a parser that stops there."""
    path = script_path(module)
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    before, loop = _main_loop(tree, path)
    made = ast.Module([node for node in before if isinstance(node, ast.Assign) and _makes_environments(node)], [])
    return Script(module, path, _parser(tree, path), _describe_loop(before, loop), compile(made, str(path), "exec"))


def script_path(module: str) -> Path:
    """Where a module's file lies, without importing the module."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        raise NotAScript(f"module {module}: {error}") from None
    if spec is None or spec.origin is None:
        raise NotAScript(f"module {module} is not installed")
    return Path(spec.origin)


class _Asked(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


class _AskingParser(argparse.ArgumentParser):
    """Knows all arguments when it is told to parse, and goes no further."""

    def parse_args(self, *args: Any, **kwargs: Any) -> Any:
        raise _Asked(self)


def _parser(tree: ast.Module, path: Path) -> argparse.ArgumentParser:
    function = next(
        (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "parse_args"), None
    )
    if function is None:
        raise NotAScript(f"{path} has no function parse_args")
    needed = {"argparse", "os", "distutils.util"}
    imports = [
        node
        for node in tree.body
        if (isinstance(node, ast.Import) and {alias.name for alias in node.names} <= needed)
        or (isinstance(node, ast.ImportFrom) and node.module in needed)
    ]
    names: dict[str, Any] = {"__file__": str(path), "__name__": "cleanrl_worker.parse_args"}
    exec(compile(ast.Module([*imports, function], []), str(path), "exec"), names)
    asking = ModuleType("argparse")
    vars(asking).update(vars(argparse) | {"ArgumentParser": _AskingParser})
    names["argparse"] = asking
    try:
        names["parse_args"]()
    except _Asked as asked:
        return asked.parser
    raise NotAScript(f"{path}: parse_args asks no argument parser")


def _main_loop(tree: ast.Module, path: Path) -> tuple[list[ast.stmt], ast.For]:
    """What the main block does before its main loop, and that loop."""
    main = next((node for node in tree.body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)), None)
    loops = [node for node in (main.body if main else []) if isinstance(node, ast.For) and _is_range(node.iter)]
    if not loops:
        raise NotAScript(f"{path} has no main loop over a range")
    loop = loops[-1]
    assert main is not None
    return main.body[: main.body.index(loop)], loop


def _describe_loop(before: list[ast.stmt], loop: ast.For) -> MainLoop:
    carried = frozenset(set(_rebound(before)) & set(_rebound(loop.body)))
    return MainLoop(loop.lineno, ast.unparse(loop.target), carried)


def _makes_environments(statement: ast.Assign) -> bool:
    """Whether this sets `env`, `envs` or an attribute of theirs."""
    targets = [target.value if isinstance(target, ast.Attribute) else target for target in statement.targets]
    return all(isinstance(target, ast.Name) and target.id in ("env", "envs") for target in targets)


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _rebound(body: list[ast.stmt]) -> Iterator[str]:
    """The names that these statements assign to."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _schema(action: argparse.Action) -> dict[str, Any]:
    text = {"description": " ".join((action.help or "").split())}
    kind: dict[str, Any]
    if action.type is int:
        kind = {"type": "integer"}
    elif action.type is float:
        kind = {"type": "number"}
    elif action.type is str or action.type is None:
        kind = {"type": "string"}
    else:
        # CleanRL's only other type is `lambda x: bool(strtobool(x))`.
        kind = {"type": "boolean"}
    if action.nargs == "+":
        kind = {"type": "array", "items": kind}
    if action.choices:
        kind["enum"] = list(action.choices)
    if action.default is None:
        kind = {"anyOf": [kind, {"type": "null"}]}
    return {**kind, **text, "default": action.default}
