"""From submit to the first line of the worker, beyond what it costs to start a bare interpreter.

    ./mosaic bench submit [--rounds 30]

Each round submits a run to an idle daemon and starts the same interpreter by hand, so that a busy machine slows both.
Target: under 150 ms beyond the bare start.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from daemon_home import BenchDaemon

from mosaic.envs import InstalledWorker

OUT = Path(__file__).parent / "out" / "submit.json"
TARGET_MS = 150

WORKER = """\
import time
FIRST_LINE = time.monotonic_ns()
import json, os, sys
if "--describe" in sys.argv:
    capabilities = {"worker_type": "first", "supports_pause_resume": False}
    schema = {"type": "object", "properties": {"run_id": {"type": "string"}}, "additionalProperties": False}
    fields = dict.fromkeys(["algorithm", "params", "total_steps", "environment", "seed"])
    print(json.dumps({"contract": 1, "name": "first", "version": "1", "title": "First", "description": "",
                      "capabilities": capabilities, "fields": fields, "config_schema": schema, "algorithms": {},
                      "example_config": {}}))
else:
    with open(os.path.join(os.environ["MOSAIC_RUN_DIR"], "first_line"), "w") as file:
        file.write(str(FIRST_LINE))
"""


def install(daemon: BenchDaemon) -> InstalledWorker:
    worker = InstalledWorker(
        name="first",
        module="first_worker",
        distribution="first-worker",
        version="1",
        folder=daemon.home.envs / "first",
        source="first-worker",
        editable=False,
        extras=(),
        installed=time.time(),
        fingerprint="",
    )
    package = worker.folder / "first_worker"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(WORKER)
    worker.python.parent.mkdir(parents=True)
    path = shlex.quote(str(worker.folder))
    worker.python.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.quote(sys.executable)} "$@"\n')
    worker.python.chmod(0o755)
    worker.write()
    return worker


def bare_start_ms(worker: InstalledWorker, base: Path) -> float:
    started = time.monotonic_ns()
    argv = [str(worker.python), "-P", "-m", f"{worker.module}.cli"]
    subprocess.run(argv, env={"MOSAIC_RUN_DIR": str(base)}, check=True)
    return (int((base / "first_line").read_text()) - started) / 1e6


def submit_ms(daemon: BenchDaemon) -> tuple[float, float]:
    """Until the answer, and until the worker's first line."""
    started = time.monotonic_ns()
    run = daemon.api("POST", "/runs", {"worker": "first"})
    answered = time.monotonic_ns()
    while daemon.api("GET", f"/runs/{run['run_id']}")["state"] not in ("SUCCEEDED", "FAILED"):
        time.sleep(0.05)
    first_line = int((Path(run["folder"]) / "first_line").read_text())
    return (answered - started) / 1e6, (first_line - started) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    bare, answer, first = [], [], []
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as base, BenchDaemon(Path(base) / "home") as daemon:
        worker = install(daemon)
        submit_ms(daemon)
        for _ in range(rounds):
            bare.append(bare_start_ms(worker, Path(base)))
            took = submit_ms(daemon)
            answer.append(took[0])
            first.append(took[1])
    beyond = [one - other for one, other in zip(first, bare, strict=True)]
    result = {}
    print(f"{'milliseconds':40}{'p50':>8}{'p90':>8}{'best':>8}")
    for name, values in (
        ("bare interpreter to its first line", bare),
        ("submit to the daemon's answer", answer),
        ("submit to the worker's first line", first),
        (f"beyond the bare start (target {TARGET_MS})", beyond),
    ):
        ordered = sorted(values)
        p50, p90 = statistics.median(ordered), ordered[int(0.9 * (len(ordered) - 1))]
        print(f"{name:40}{p50:8.1f}{p90:8.1f}{ordered[0]:8.1f}")
        result[name] = {"p50": p50, "p90": p90, "best": ordered[0]}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
