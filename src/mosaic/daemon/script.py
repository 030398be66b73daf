"""The built-in worker `script`: runs a shell script and speaks the telemetry contract for it.

What the script (and whatever it starts) prints on stdout, line by line:

    @phase NAME     a new phase begins: shows as a stage
    @step N         so far it has done N of its @total_timesteps
    {"type": ...}   telemetry, such as a worker prints it: goes through as it is; only that a worker in the script has
                    started, completed or failed becomes a log message, as the run is the script's, not the worker's
    anything else   goes to logs/worker.log, like stderr

It is what was submitted that runs: if the file has changed since, the copy in the run folder. The script's stdin stays
open and silent. On `stop`, and on SIGTERM, the script and its children get SIGTERM. In its environment
MOSAIC_SCRIPT_DIR is the folder of the file, beside the MOSAIC_RUN_* that every worker gets.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec

from mosaic.daemon.scripts import COPY_NAME, SCRIPT_WORKER, ScriptConfig
from mosaic.worker.config import read_config_file
from mosaic.worker.control import ControlLine
from mosaic.worker.messages import AnyMessage, Heartbeat, RunCompleted, RunFailed, RunStarted
from mosaic.worker.run import RunPlace
from mosaic.worker.telemetry import TelemetryEmitter, take_stdout

LINE_LIMIT = 1 << 20
# How long to wait for output of what the script left running in the background.
DRAIN_S = 2.0


class Translator:
    """Turns what the script prints into telemetry."""

    def __init__(self, telemetry: TelemetryEmitter, phases: list[str], write_text: Callable[[bytes], None]) -> None:
        self._telemetry = telemetry
        self._phases = phases
        self._write_text = write_text
        self._decoder = msgspec.json.Decoder(AnyMessage)

    def line(self, line: bytes) -> None:
        if line.startswith(b"{") and self._message(line):
            return
        word, _, rest = line.partition(b" ")
        text = rest.decode(errors="replace").strip()
        if word == b"@phase" and text:
            index = self._phases.index(text) + 1 if text in self._phases else 0
            self._telemetry.stage(text, index=index, total=len(self._phases), step=self._telemetry.last_step)
        elif word == b"@step" and text.isascii() and text.isdecimal():
            self._progress(int(text))
        else:
            self._write_text(line)

    def _message(self, line: bytes) -> bool:
        try:
            message = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        match message:
            case RunStarted():
                self._telemetry.log(f"worker {message.worker} started")
            case RunCompleted():
                self._telemetry.log(f"worker completed ({message.reason})")
            case RunFailed():
                self._telemetry.log(f"worker failed: {message.error}", level="error")
            case Heartbeat():
                if message.step is not None:
                    self._telemetry.last_step = message.step
            case _:
                step = getattr(message, "step", None)
                if step is not None:
                    self._telemetry.last_step = step
                self._telemetry.emit(message)
        return True

    def _progress(self, step: int) -> None:
        self._telemetry.last_step = step
        self._telemetry.emit(Heartbeat(step=step))


class ScriptProcess:
    """The running script, in a process group of its own."""

    def __init__(self, config: ScriptConfig, folder: Path) -> None:
        source = choose_source(Path(config.file), folder / COPY_NAME)
        home = Path(config.file).parent
        cwd = Path(config.cwd) if config.cwd else home
        self._process = subprocess.Popen(
            [*interpreter(source), str(source), *config.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=cwd if cwd.is_dir() else folder,
            env={**os.environ, "MOSAIC_SCRIPT_DIR": str(home)},
            process_group=0,
        )
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def run(self, line: Callable[[bytes], None]) -> int:
        reader = threading.Thread(target=self._read, args=(line,), name="script-output", daemon=True)
        reader.start()
        code = self._process.wait()
        reader.join(DRAIN_S)
        return code

    def _read(self, line: Callable[[bytes], None]) -> None:
        assert self._process.stdout is not None
        while data := self._process.stdout.readline(LINE_LIMIT):
            line(data.rstrip(b"\r\n"))


def choose_source(original: Path, copy: Path) -> Path:
    """The file itself, so that `$0` is what the script expects, as long as it is what was submitted."""
    if original.is_file() and original.read_bytes() == copy.read_bytes():
        return original
    print(f"script: {original} has changed since it was submitted: running the copy {copy}", file=sys.stderr)
    return copy


def interpreter(script: Path) -> list[str]:
    with script.open("rb") as file:
        first = file.readline(4096)
    if first.startswith(b"#!"):
        return shlex.split(first[2:].decode(errors="replace"))
    return ["/bin/sh"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mosaic.daemon.script")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the run's job.json")
    options = parser.parse_args()
    stdout = take_stdout()
    config = msgspec.convert(read_config_file(options.config), ScriptConfig)
    place = RunPlace.from_environment(config.run_id or "script")
    telemetry = TelemetryEmitter(stdout)
    telemetry.run_started(
        place.run_id, SCRIPT_WORKER, config=msgspec.to_builtins(config), total_steps=config.total_timesteps
    )
    try:
        script = ScriptProcess(config, place.folder)
    except OSError as error:
        telemetry.run_failed(f"the script could not be started: {error}")
        telemetry.close()
        return 1
    _obey(script)
    translator = Translator(telemetry, config.phases, _write_stderr)
    code = script.run(translator.line)
    if script.stopped or code == 0:
        telemetry.run_completed(reason="stopped" if script.stopped else "finished", summary={"exit_code": code})
    else:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        telemetry.run_failed(f"the script ended with {how}")
    telemetry.close()
    # Not the script's own code: in the contract 2 means a bad config.
    return 0 if script.stopped or code == 0 else 1


def _obey(script: ScriptProcess) -> None:
    def on_signal(signum: int, frame: FrameType | None) -> None:
        script.stop()

    def read_control() -> None:
        decoder = msgspec.json.Decoder(ControlLine)
        # Not sys.stdin: at its end the interpreter wants that one back, and this thread may be in the middle of it.
        with os.fdopen(os.dup(0), "rb") as lines:
            for line in lines:
                with suppress(msgspec.DecodeError):
                    if decoder.decode(line).type == "stop":
                        script.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    threading.Thread(target=read_control, name="script-control", daemon=True).start()


def _write_stderr(line: bytes) -> None:
    data = memoryview(line + b"\n")
    while data:
        data = data[os.write(2, data) :]


if __name__ == "__main__":
    sys.exit(main())
