"""Options and arguments that many commands share, and what completes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mosaic.client.errors import MosaicError
from mosaic.paths import Home

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mosaic.client import Client, Run

F = TypeVar("F", bound=Callable[..., Any])

COMPLETED_RUNS = 100


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the newest runs; ids once the beginning of one was typed."""
    from click.shell_completion import CompletionItem

    from mosaic.cli.local_runs import newest_first

    runs = list(islice(newest_first(Home.from_environment()), COMPLETED_RUNS))
    items = [CompletionItem("latest", help=f"{runs[0].name}")] if runs else []
    seen = set()
    for run in runs:
        if run.name not in seen:
            seen.add(run.name)
            items.append(CompletionItem(run.name, help=f"{run.worker} {run.run_id}"))
    items += [CompletionItem(name, help="group") for name in dict.fromkeys(run.group for run in runs) if name]
    items += [CompletionItem(run.run_id, help=f"{run.worker} {run.name}") for run in runs if incomplete]
    return [item for item in items if item.value.startswith(incomplete)]


def complete_workers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from mosaic.cli.workers import known_names

    names = known_names(Home.from_environment())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def run_argument(function: F) -> F:
    return click.argument("reference", metavar="RUN", shell_complete=complete_runs)(function)


def runs_argument(function: F) -> F:
    return click.argument("references", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)(
        function
    )


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Answer with JSON on stdout.")(function)


def for_each_run(
    references: Iterable[str],
    action: Callable[[Run], Run | None],
    told: Callable[[Run], str],
    as_json: bool,
    *,
    member: Callable[[Run], bool] = lambda run: True,
) -> int:
    """Do something to several runs: one that refuses does not keep the others from it. Returns the exit code.

    Of a group only to those that `member` says yes to, unless it does to none.
    """
    from mosaic.cli.exit_codes import code_of
    from mosaic.cli.output import print_json, say
    from mosaic.client import Group

    client = make_client()
    code = 0
    answers: list[dict[str, Any]] = []

    def refused(reference: str, error: MosaicError) -> None:
        nonlocal code
        code = code or code_of(error)
        answers.append({"run": reference, "error": str(error)})
        say(f"mosaic: {error}")

    for reference in references:
        try:
            found = client.find(reference)
        except MosaicError as error:
            refused(reference, error)
            continue
        meant = found.runs if isinstance(found, Group) else [found]
        for run in [run for run in meant if member(run)] or meant:
            try:
                done = action(run) or run
            except MosaicError as error:
                refused(run.name, error)
                continue
            answers.append(done.view)
            if not as_json:
                click.echo(told(done))
    if as_json:
        print_json(answers)
    return code


def make_client() -> Client:
    from mosaic.client import Client

    return Client()
