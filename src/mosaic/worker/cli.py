"""The command line that every worker has: `python -m <package>.cli`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mosaic.worker.checkpoints import CheckpointError, verify
from mosaic.worker.config import as_dict, build_config, read_config_file
from mosaic.worker.control import Control
from mosaic.worker.run import Run, RunPlace
from mosaic.worker.session import run_interactive, run_policy_server
from mosaic.worker.telemetry import Stream, TelemetryEmitter, take_stdout
from mosaic.worker.validation import ConfigError
from mosaic.worker.worker import NotOffered, Worker

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_BAD_CONFIG = 2

C = TypeVar("C")


def main(worker: Worker[C], argv: Sequence[str] | None = None) -> int:
    """Run a worker's command line; the answer is the exit code."""
    options = _parser(worker).parse_args(argv)
    # Before anything of the upstream is imported that might print.
    stream = take_stdout()
    stdout = stream.descriptor
    try:
        if options.describe:
            _print(stdout, worker.describe())
            return EXIT_DONE
        if options.serve is not None:
            verify(options.serve)
            run_policy_server(worker.load_policy(options.serve), sys.stdin.buffer, stdout)
            return EXIT_DONE
        config = _load(worker, options.config)
        worker.validate(config)
        if options.dry_run:
            command = worker.command(config)
            if options.json:
                _print(stdout, {"ok": True, "errors": [], "command": command})
            else:
                print(
                    "\n".join(["config: fine", *([f"command: {shlex.join(command)}"] if command else [])]),
                    file=sys.stderr,
                )
            return EXIT_DONE
        if options.interactive:
            run_interactive(worker.open_session(config), sys.stdin.buffer, stdout)
            return EXIT_DONE
    except ConfigError as error:
        for item in error.errors:
            print(f"config: {item.message}", file=sys.stderr)
        if options.dry_run and options.json:
            _print(stdout, {"ok": False, "errors": [item.as_dict() for item in error.errors]})
        return EXIT_BAD_CONFIG
    except (NotOffered, CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_CONFIG
    return _run(worker, config, stream)


def _parser(worker: Worker[C]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {type(worker).__module__.split('.')[0]}.cli", description=worker.title
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="run this config (flat or a job descriptor)")
    parser.add_argument("--dry-run", action="store_true", help="check the config, resolve the algorithm, and exit")
    parser.add_argument("--json", action="store_true", help="with --dry-run: tell what is wrong as JSON on stdout")
    parser.add_argument("--interactive", action="store_true", help="step the environment by JSON lines on stdin")
    parser.add_argument("--serve", type=Path, metavar="CHECKPOINT", help="answer action requests on stdin")
    parser.add_argument("--describe", action="store_true", help="print capabilities, algorithms and schemas as JSON")
    return parser


def _load(worker: Worker[C], path: Path | None) -> C:
    if path is None:
        raise NotOffered("nothing to do: give --config FILE, --serve CHECKPOINT or --describe (see --help)")
    return build_config(worker.config_type, worker.describe(), read_config_file(path))


def _print(descriptor: int, document: dict[str, Any]) -> None:
    data = memoryview(msgspec.json.encode(document) + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


def _run(worker: Worker[C], config: C, stream: Stream) -> int:
    place = RunPlace.from_environment(str(getattr(config, "run_id", "") or "run"))
    place.folder.mkdir(parents=True, exist_ok=True)
    control = Control(supervised=place.supervised)
    control.listen()
    telemetry = TelemetryEmitter(stream, on_reader_gone=control.request_stop)
    name = worker.capabilities.worker_type
    telemetry.run_started(
        place.run_id,
        name,
        worker_version=worker.version,
        config=as_dict(config),
        total_steps=worker.total_steps(config),
    )
    try:
        run = Run(place, worker=name, telemetry=telemetry, control=control)
        summary = worker.run(config, run) or {}
        run.manifest.finish(summary)
        telemetry.run_completed(reason="stopped" if run.stop_requested else "finished", summary=summary)
        return EXIT_DONE
    except (ConfigError, CheckpointError) as error:
        telemetry.run_failed(str(error))
        print(f"config: {error}", file=sys.stderr)
        return EXIT_BAD_CONFIG
    except Exception as error:
        # Whatever the upstream raises is told, with its traceback, before the process ends with it.
        telemetry.run_failed(f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        traceback.print_exc()
        return EXIT_FAILED
    finally:
        telemetry.close()
