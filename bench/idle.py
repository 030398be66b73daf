"""What the daemon costs while it has nothing to do, with 1,000 finished runs registered.

    ./mosaic bench idle [--runs 1000] [--seconds 20]

Targets: under 1% of one CPU, under 150 MB. Also how long it takes to list the runs, and to rebuild a lost registry.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from daemon_home import BenchDaemon
from websockets.sync.client import connect

from mosaic.daemon.job import Job, Metadata, WorkerPart
from mosaic.daemon.launching import write_job
from mosaic.daemon.ulid import UlidMaker
from mosaic.paths import Home
from mosaic.shepherd.exit_record import ExitRecord
from mosaic.store import RunWriter
from mosaic.worker.messages import Metric

OUT = Path(__file__).parent / "out" / "idle.json"
CPU_TARGET, MEMORY_TARGET = 1.0, 150


def make_finished_runs(home: Home, count: int) -> None:
    """Folders as finished runs leave them; the daemon finds them at its start."""
    new_id = UlidMaker()
    for number in range(count):
        now = time.time()
        run_id = new_id()
        config = {"total_timesteps": 100, "learning_rate": 0.1, "run_id": run_id}
        worker = WorkerPart(name="tabular", module="tabular_worker", config=config)
        folder = home.run(run_id)
        write_job(folder, Job(run_id=run_id, name=f"run {number}", created=now, metadata=Metadata(worker=worker)), {})
        writer = RunWriter(folder.store)
        writer.begin_attempt(1, started=now, resumed_from=None, resumed_step=None)
        writer.append([Metric(step=step, values={"return": 1.0}) for step in range(100)], now)
        writer.commit()
        writer.close()
        record = ExitRecord(
            run_id=run_id,
            attempt=1,
            outcome="succeeded",
            reason="completed",
            message="completed",
            started=now,
            ended=now,
            last_seq=101,
            last_step=99,
        )
        folder.exit.write_bytes(msgspec.json.encode(record))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss")


def cpu_percent(pid: int, seconds: float) -> float:
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as base:
        home = Home(Path(base) / "home")
        make_finished_runs(home, options.runs)
        started = time.monotonic()
        with BenchDaemon(home.root) as daemon:
            result["start, rebuilding the registry (s)"] = time.monotonic() - started
        started = time.monotonic()
        with BenchDaemon(home.root) as daemon:
            result["start (s)"] = time.monotonic() - started
            times = []
            for _ in range(20):
                begun = time.monotonic()
                assert len(daemon.api("GET", "/runs?limit=1000")["runs"]) == min(options.runs, 1000)
                times.append(1000 * (time.monotonic() - begun))
            result["list 1,000 runs (ms)"] = statistics.median(times)
            result[f"idle CPU % (target {CPU_TARGET:g})"] = cpu_percent(daemon.pid, options.seconds)
            with connect(
                daemon.url.replace("http", "ws") + "/api/v1/events", additional_headers=daemon.bearer, proxy=None
            ):
                result["idle CPU % with one who watches all runs"] = cpu_percent(daemon.pid, options.seconds)
            result[f"memory MB (target {MEMORY_TARGET})"] = memory_mb(daemon.pid)
    for name, value in result.items():
        print(f"{name:45}{value:10.2f}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
