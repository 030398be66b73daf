"""What the commands that start runs share: the options of a submission, and what happens after it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mosaic.cli.exit_codes import DONE, FAILED, INTERRUPTED, USAGE
from mosaic.cli.flags import SchemaValue
from mosaic.client.errors import BadConfig

if TYPE_CHECKING:
    from mosaic.client import Client, Run

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class SubmitOptions:
    """The options that every submission takes; what was not given stays as the file or the daemon has it."""

    name: str | None
    tags: tuple[str, ...]
    priority: int | None
    cpus: int | None
    memory_mb: int | None
    gpus: int | None
    retry: dict[str, Any] | None
    clips: int | None
    then: str
    as_json: bool

    @classmethod
    def take(cls, values: dict[str, Any]) -> SubmitOptions:
        """Out of the parameters of a command that was decorated with `submit_options`."""
        taken = {field: values.pop(field) for field in cls.__dataclass_fields__ if field != "then"}
        return cls(**taken, then=values.pop("then") or "detach")

    def apply(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The JobSpec with these options laid over it."""
        resources = {"cpus": self.cpus, "memory_mb": self.memory_mb, "gpus": self.gpus}
        given = {key: value for key, value in resources.items() if value is not None}
        result = dict(spec)
        for key, value in (("name", self.name), ("priority", self.priority), ("retry", self.retry)):
            if value is not None:
                result[key] = value
        if self.tags:
            result["tags"] = [*result.get("tags", []), *self.tags]
        if given:
            result["resources"] = {**result.get("resources", {}), **given}
        if self.clips is not None:
            result["clips"] = {"every_episodes": self.clips}
        return result


class RetryPolicy(click.ParamType[dict[str, Any]]):
    name = "POLICY[:N]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from mosaic.client import parse_retry

        try:
            return parse_retry(value)
        except BadConfig:
            self.fail(f"got {value!r}, allowed: none, restart[:N] or resume[:N], such as resume:3", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in ("none", "restart:3", "resume:3") if word.startswith(incomplete)]


def _from(least: int) -> SchemaValue:
    return SchemaValue({"type": "integer", "minimum": least}, {})


def submit_options() -> list[click.Option]:
    """Fresh options of a submission, for commands that are put together at run time."""
    return [
        click.Option(["--name"], metavar="NAME", help="Name of the run; made up if not given."),
        click.Option(["--tag", "tags"], multiple=True, metavar="TAG", help="Tag of the run; may be repeated."),
        click.Option(["--priority"], type=int, metavar="N", help="Higher starts first.  [default: 0]"),
        click.Option(["--cpus"], type=_from(1), metavar="N", help="CPU slots that it takes.  [default: 1]"),
        click.Option(["--memory-mb"], type=_from(16), metavar="MB", help="Memory limit; past it the run is ended."),
        click.Option(["--gpus"], type=_from(0), metavar="N", help="GPUs of its own.  [default: 0]"),
        click.Option(
            ["--retry"],
            type=RetryPolicy(),
            help="If it fails or is lost: restart[:N] anew, resume[:N] from a checkpoint.  [default: none]",
        ),
        click.Option(["--clips"], type=_from(1), metavar="N", help="Record a video clip of every Nth episode."),
        click.Option(["--watch", "then"], flag_value="watch", help="Watch it live until it ends."),
        click.Option(["--wait", "then"], flag_value="wait", help="Wait for its end, quietly."),
        click.Option(["--detach", "then"], flag_value="detach", help="Return at once (as is usual)."),
        click.Option(["--json", "as_json"], is_flag=True, help="Answer with JSON on stdout."),
    ]


def with_submit_options(function: F) -> F:
    """The same for commands with a fixed set of parameters."""
    for option in reversed(submit_options()):
        parameters = getattr(function, "__click_params__", None)
        if parameters is None:
            parameters = function.__click_params__ = []  # type: ignore[attr-defined]
        parameters.append(option)
    return function


def submit(client: Client, spec: dict[str, Any], options: SubmitOptions) -> int:
    """Submit, tell, and do what was asked for next. Returns the exit code."""
    from mosaic.cli.output import print_json, say
    from mosaic.cli.up import ensure_daemon

    ensure_daemon(client)
    run = client.submit_spec(options.apply(spec))
    if options.then == "detach":
        if options.as_json:
            print_json(run.view)
        else:
            _tell(run)
        return 0
    if options.then == "watch":
        from mosaic.cli.watch import watch

        return watch(run, as_json=options.as_json)
    if not options.as_json:
        say(f"submitted {run.name} ({run.id}), waiting for its end")
    try:
        run.wait()
    except KeyboardInterrupt:
        say(f"\nno longer waiting; {run.name} goes on")
        return INTERRUPTED
    if options.as_json:
        print_json(run.view)
    else:
        why = f": {run.exit['message']}" if run.exit and run.state != "SUCCEEDED" else ""
        click.echo(f"{run.name}: {run.state.lower()}{why}")
    return exit_code_of(run)


def _tell(run: Run) -> None:
    click.echo(f"submitted {run.name} ({run.id})" + (f": {run.view['detail']}" if run.view["detail"] else ""))
    if sys.stdout.isatty():
        click.echo(f"watch it: mosaic watch {run.name}")


def exit_code_of(run: Run) -> int:
    """0 only for a run that ended well. What only the worker itself could refuse counts as refused."""
    if run.state == "SUCCEEDED":
        return DONE
    return USAGE if run.exit is not None and run.exit["reason"] == "bad_config" else FAILED


def read_json_object(path: str) -> dict[str, Any]:
    """A file's JSON object; `-` is stdin."""
    name = "stdin" if path == "-" else path
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
        content = json.loads(text)
    except OSError as error:
        raise BadConfig(f"config file {name}: {error.strerror}") from None
    except ValueError as error:
        raise BadConfig(f"config file {name}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadConfig(f"config file {name}: got a JSON {type(content).__name__}, allowed: an object")
    return content
