"""The `mosaic` command itself: which commands there are, how one is loaded, how errors and exit codes come about."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mosaic.cli.exit_codes import FAILED, INTERRUPTED, USAGE, code_of
from mosaic.client.errors import BadConfig, MosaicError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Name -> one line of help, in the order and under the headings that `mosaic --help` shows. They stand here, not in the
# commands' files, so that help needs to import none of them.
SECTIONS: dict[str, dict[str, str]] = {
    "First steps": {
        "quickstart": "Set everything up, train a policy and see how good it is.",
        "doctor": "Find what is wrong in the home folder, explain it, mend it on request.",
    },
    "Start runs": {
        "train": "Train with a worker; its hyperparameters are flags.",
        "submit": "Submit a config file as a run.",
        "script": "Run a shell script as a run.",
    },
    "Look at runs": {
        "runs": "List runs, newest first.",
        "show": "Show everything about runs.",
        "watch": "Watch a run, or a group of runs, live.",
        "wait": "Wait for runs to end.",
        "logs": "Print or follow a run's log.",
        "export": "Write a run's telemetry to Parquet or CSV.",
        "record": "Record a run's live picture to a video file.",
    },
    "Steer runs": {
        "pause": "Pause running runs.",
        "resume": "Let paused runs go on; start ended ones again from their newest checkpoint.",
        "checkpoint": "Ask running runs to write a checkpoint now.",
        "cancel": "End runs.",
        "retry": "Start ended runs again from the beginning.",
        "rm": "Delete ended runs and their folders.",
    },
    "The platform": {
        "up": "Start the daemon.",
        "down": "Stop the daemon; runs go on.",
        "open": "Open the GUI in a browser, logged in.",
        "status": "Show the daemon, its resources and what runs.",
        "worker": "Install, list, show, remove and check workers.",
        "completion": "Print the shell completion for bash, zsh or fish.",
        "test": "Install what the tests need, then run ruff, mypy and all tests.",
        "bench": "Run the benchmark NAME with ARGUMENTS; without NAME, list them.",
    },
}
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}

# Shells ask for completions by setting this.
COMPLETE_VARIABLE = "_MOSAIC_COMPLETE"

HELP = """MOSAIC runs reinforcement-learning libraries side by side: live to watch, impossible to lose.

RUN is a run's name, its id or a unique beginning of it, `latest`, or the name of a group of runs."""
EPILOG = """Exit codes: 0 done, 1 failed (also: the watched run did), 2 wrong usage or config, 3 no daemon,
4 no such run or worker, 5 not possible in the run's state, 130 interrupted. With --json, answers are JSON on stdout."""


class LazyGroup(click.Group):
    """Loads `mosaic.cli.<name>` and takes its `command` when <name> was typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"mosaic.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "see `mosaic --help`"
            raise click.UsageError(f"no such command: {name}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()), col_max=12)


def context_settings() -> dict[str, object]:
    return {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=LazyGroup, help=HELP, epilog=EPILOG, context_settings=context_settings())
@click.version_option(None, "-V", "--version", package_name="mosaic-rl", message="mosaic %(version)s")
def group() -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command line; every way to end is an exit code and at most a few lines on stderr."""
    try:
        code = group.main(list(arguments), prog_name="mosaic", complete_var=COMPLETE_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return USAGE if arguments else 0
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        return _report(arguments, click_message(error), USAGE if isinstance(error, click.UsageError) else FAILED)
    except MosaicError as error:
        return _report(arguments, str(error), code_of(error), error)
    except BrokenPipeError:
        # Whoever read our output has left; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        if error.filename is None:
            raise  # not about a file of the person's: a mistake of ours
        return _report(arguments, f"{error.filename}: {error.strerror}", FAILED)


def click_message(error: click.ClickException) -> str:
    """Click's message on one line, with the name of the parameter that it is about."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    if isinstance(error, click.UsageError) and not isinstance(error, click.BadParameter) and context is not None:
        return f"{message}; see `{context.command_path} --help`" if "`" not in message else message
    return message


def _report(arguments: Sequence[str], message: str, code: int, error: MosaicError | None = None) -> int:
    if COMPLETE_VARIABLE in os.environ:
        return code  # a person who pressed Tab does not want to read this in the middle of their line
    if "--json" in arguments:
        answer: dict[str, object] = {"error": message, "exit_code": code}
        if isinstance(error, BadConfig):
            answer["errors"] = [field.as_dict() for field in error.errors]
        click.echo(json.dumps(answer))
    for line in message.splitlines():
        click.echo(f"mosaic: {line}", err=True)
    return code
