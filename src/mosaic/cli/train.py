"""`mosaic train WORKER`: a run whose config is given as flags, made from the worker's own schema."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import click

from mosaic.cli.app import context_settings
from mosaic.cli.flags import AlgorithmName, ConfigOption, fields_of, given_values, put_value
from mosaic.cli.options import make_client
from mosaic.cli.submission import SubmitOptions, read_json_object, submit, submit_options
from mosaic.cli.workers import describe, installed_for_run, known_names
from mosaic.client.errors import NoSuchWorker
from mosaic.paths import Home
from mosaic.worker.description import default_at, value_at

# Means the worker's field for its algorithm, however that is called there.
ALGORITHM_FLAG = "--algorithm"
RUN_OPTIONS = "The run"


class TrainGroup(click.Group):
    """Its subcommands are the workers that there are."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return known_names(Home.from_environment())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return WorkerCommand(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not ctx.resilient_parsing:
            if name.startswith("-"):
                raise click.UsageError("say the worker first, as in `mosaic train tabular --seed 3`", ctx)
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
            raise NoSuchWorker(f"no such worker: {name!r}; {hint} (`mosaic worker install` brings others)")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from mosaic.envs import WorkerEnvs

        envs = WorkerEnvs(Home.from_environment())
        rows = {worker.name: worker.distribution for worker in envs.installed()}
        for worker in envs.available():
            note = "" if worker.installed else "  (its first run installs it)"
            rows[worker.name] = worker.description + note
        with formatter.section("Workers"):
            formatter.write_dl(sorted(rows.items()))


class WorkerCommand(click.Command):
    """`train WORKER`: which parameters it has depends on the algorithm, so they are made when that is known."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker, context_settings=context_settings(), callback=self._train)
        self._worker = worker
        self._description: dict[str, Any] | None = None
        self._base: dict[str, Any] = {}
        self._config_options: list[ConfigOption] = []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._load(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._better(error) from None

    def _load(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Describe the worker, find out the algorithm, and make the options from both."""
        from mosaic.cli.output import say

        home = Home.from_environment()
        asks_help = ctx.resilient_parsing or bool({"-h", "--help"} & set(args))
        if not asks_help:
            installed_for_run(home, self._worker, say)
        if not asks_help or self._is_installed(home):
            self._description = describe(home, self._worker)
        self.params = [*_own_options()]
        for option in self.params:
            option.section = RUN_OPTIONS  # type: ignore[attr-defined]
        if self._description is None:
            return
        path = _argument(args, "--config")
        if path is not None and path != "-" and not ctx.resilient_parsing:
            self._base = _worker_part(read_json_object(path), path)
        self._config_options = list(config_options(self._description, self._algorithm(args), _flags_of(self.params)))
        self.params = [*self._config_options, *self.params]

    def _is_installed(self, home: Home) -> bool:
        from mosaic.envs import WorkerEnvs

        return self._worker in {worker.name for worker in WorkerEnvs(home).installed()}

    def _algorithm(self, args: Sequence[str]) -> str | None:
        """The algorithm that was typed, else that of the base config, else the default; None if there is no such."""
        assert self._description is not None
        path = self._description["fields"]["algorithm"]
        if path is None:
            return None
        own_flag = "--" + path.replace(".", "-").replace("_", "-")
        typed = _argument(args, own_flag) or _argument(args, ALGORITHM_FLAG)
        name = typed or value_at(self._base, path) or default_at(self._description["config_schema"], path)
        return name if name in self._description["algorithms"] else None

    def _better(self, error: click.NoSuchOption) -> click.UsageError:
        """Tell whose option it is, or which one was probably meant."""
        assert self._description is not None
        own = _flags_of(_own_options())
        owners = [
            name
            for name in self._description["algorithms"]
            if error.option_name in _flags_of(list(config_options(self._description, name, own)))
        ]
        if owners:
            return click.UsageError(
                f"{error.option_name} is an option of {', '.join(owners)}: say --algorithm {owners[0]}"
            )
        close = difflib.get_close_matches(error.option_name, _flags_of(self.params), n=1)
        hint = f"did you mean {close[0]}?" if close else f"see `mosaic train {self._worker} --help`"
        return click.UsageError(f"no such option: {error.option_name}; {hint}")

    def _train(self, config_file: str | None, print_config: bool, seeds: str | None, **values: Any) -> int:
        from mosaic.cli.output import print_json

        base = _worker_part(read_json_object("-"), "-") if config_file == "-" else self._base
        context = click.get_current_context()
        for path, value in given_values(context, self._config_options):
            put_value(base, path, value)
        if print_config:
            print_json(base)
            return 0
        options = SubmitOptions.take({key: values[key] for key in values if not key.startswith("config__")})
        spec = {"worker": self._worker, "config": base}
        if seeds is not None:
            from mosaic.cli.groups import parse_seeds, submit_group

            return submit_group(make_client(), spec, parse_seeds(seeds), options)
        return submit(make_client(), spec, options)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        with formatter.indentation():
            description = self._description
            if description is None:
                formatter.write_text(
                    f"Worker {self._worker} is not installed yet, so its flags are not known: "
                    f"`mosaic worker install {self._worker}` brings them. Training installs it too."
                )
                return
            formatter.write_text(description["description"] or description["title"])
            path = description["fields"]["algorithm"]
            if path and len(description["algorithms"]) > 1:
                formatter.write_paragraph()
                formatter.write_text("The parameters of another algorithm: add --algorithm NAME to --help.")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._description and len(self._description["algorithms"]) > 1:
            rows = [(name, _about(facts)) for name, facts in self._description["algorithms"].items()]
            with formatter.section("Algorithms"):
                formatter.write_dl(rows)
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", RUN_OPTIONS), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def config_options(description: dict[str, Any], algorithm: str | None, taken: set[str]) -> list[ConfigOption]:
    """The flags of a worker's config, and of the hyperparameters of one of its algorithms."""
    fields = description["fields"]
    params_path: str | None = fields["params"]
    params = description["algorithms"][algorithm] if algorithm is not None and params_path else None
    schema = description["config_schema"]
    options = [
        ConfigOption(field, "Config")
        for field in fields_of(schema, taken=taken, clash="config")
        if field.path != ("run_id",) and not (params and ".".join(field.path) == params_path)
    ]
    if params is not None and params_path is not None:
        taken = taken | _flags_of(options)
        fields_there = fields_of(
            params["params_schema"], path=tuple(params_path.split(".")), taken=taken, clash="param"
        )
        options += [ConfigOption(field, f"Hyperparameters of {algorithm}") for field in fields_there]
    chosen = next((option for option in options if ".".join(option.field.path) == fields["algorithm"]), None)
    if chosen is not None:
        names = list(description["algorithms"])
        if names and "enum" not in chosen.field.schema:
            chosen.type = AlgorithmName(names, description.get("not_offered", {}))
        if ALGORITHM_FLAG not in taken | _flags_of(options):
            chosen.opts.append(ALGORITHM_FLAG)
    return options


def _own_options() -> list[click.Option]:
    return [
        click.Option(
            ["--config", "config_file"],
            type=click.Path(allow_dash=True, dir_okay=False),
            metavar="FILE",
            help="Config to start from, as JSON; flags win over it. - reads stdin.",
        ),
        click.Option(["--print-config"], is_flag=True, help="Print the config that would be submitted, and end."),
        click.Option(["--seeds"], metavar="N|N,N,...", help="A group of runs: so many seeds (1, 2, 3, ...), or these."),
        *submit_options(),
    ]


def _flags_of(options: Sequence[click.Parameter]) -> set[str]:
    return {flag for option in options for flag in (*option.opts, *option.secondary_opts)}


def _argument(args: Sequence[str], flag: str) -> str | None:
    """What was typed for a flag, before anything is parsed."""
    found = None
    for index, text in enumerate(args):
        if text == flag and index + 1 < len(args):
            found = args[index + 1]
        elif text.startswith(flag + "="):
            found = text.partition("=")[2]
    return found


def _worker_part(content: dict[str, Any], path: str) -> dict[str, Any]:
    from mosaic.cli.submit import spec_from

    return dict(spec_from(content, None, path)["config"]) if "metadata" in content else content


def _about(facts: dict[str, Any]) -> str:
    text = str(facts.get("description", ""))
    return f"{facts['title']}. {text}" if text else str(facts["title"])


@click.group("train", cls=TrainGroup, context_settings=context_settings(), subcommand_metavar="WORKER [OPTIONS]")
def command() -> None:
    """Train with a worker; its hyperparameters are flags.

    `mosaic train WORKER --help` shows them, with types, ranges and defaults; with --algorithm NAME also those of that
    algorithm. The run is submitted and goes on in the background; --watch shows it live.
    """
