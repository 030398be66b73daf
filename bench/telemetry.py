"""Telemetry end to end: a worker prints a million `step` events; the clock stops when a reader has them all.

    ./mosaic bench telemetry [--events 1000000]

Targets: 150,000 events/s on two cores, the shepherd's memory under 80 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from daemon_home import users_environment

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import read_exit
from mosaic.shepherd.launch import Launch, shepherd_command
from mosaic.store import RunReader, StoreMissing

OUT = Path(__file__).parent / "out" / "telemetry.json"

# What a loop over env.step would say, by the emitter that workers use; and what saying it cost the loop.
WORKER = """
import sys, time
from mosaic.worker.telemetry import TelemetryEmitter, take_stdout
telemetry = TelemetryEmitter(take_stdout())
events = int(sys.argv[1])
loop, process = time.thread_time(), time.process_time()
for step in range(1, events + 1):
    telemetry.step(step, 0.5, episode=step // 200)
loop = time.thread_time() - loop
telemetry.close()
print(loop, time.process_time() - process, file=sys.stderr)
"""
# Starting Python costs what it costs: the worker reports when its first line runs.
FIRST_LINE = "import sys, time; print(time.monotonic_ns(), file=sys.stderr)"


def start(folder: RunFolder, argv: list[str]) -> subprocess.Popen[bytes]:
    folder.path.mkdir(parents=True)
    folder.logs.mkdir()
    folder.launch.write_bytes(msgspec.json.encode(Launch(run_id=folder.run_id, attempt=1, argv=argv)))
    return subprocess.Popen(
        shepherd_command(folder), stdin=subprocess.DEVNULL, start_new_session=True, env=users_environment()
    )


def throughput(base: Path, events: int) -> dict[str, float]:
    folder = RunFolder(base / "THROUGHPUT")
    started = time.perf_counter()
    shepherd = start(folder, [sys.executable, "-c", WORKER, str(events)])
    while _last_seq(folder) < events:
        time.sleep(0.02)
    with RunReader(folder.store) as reader:
        assert len(reader.read(events // 2, kinds=["step"], limit=10)) == 10
    seconds = time.perf_counter() - started
    _, _, usage = os.wait4(shepherd.pid, 0)
    record = read_exit(folder)
    assert record is not None
    assert (record.outcome, record.last_step, record.counts) == ("succeeded", events, {}), record
    loop_s, worker_s = map(float, folder.worker_log.read_text().split())
    return {
        "events": events,
        "seconds": seconds,
        "events_per_s": events / seconds,
        "shepherd_peak_mb": usage.ru_maxrss / 1024,
        "shepherd_and_worker_cpu_s": usage.ru_utime + usage.ru_stime,  # wait4 counts who the shepherd waited for
        "emitter_cpu_s": worker_s,
        "training_loop_us_per_event": loop_s / events * 1e6,
    }


def first_line(base: Path, rounds: int = 11) -> dict[str, float]:
    """From spawning the shepherd to the worker's first line, beyond what a bare interpreter takes to get there.

    On a busy machine the processor time says more: all of the shepherd's, what comes after the first line included.
    """
    argv = [sys.executable, "-c", FIRST_LINE]
    start(RunFolder(base / "FIRST"), argv).wait()  # compiles what is not compiled yet
    bare, shepherded, bare_cpu, shepherded_cpu = [], [], [], []
    for index in range(rounds):
        before = time.monotonic_ns()
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, env=users_environment())
        assert process.stderr is not None
        bare.append(int(process.stderr.read()) - before)
        bare_cpu.append(_cpu_s(process))
        folder = RunFolder(base / f"FIRST-{index}")
        before = time.monotonic_ns()
        shepherded_cpu.append(_cpu_s(start(folder, argv)))
        shepherded.append(int(folder.worker_log.read_text()) - before)
    return {
        "bare_interpreter_ms": statistics.median(bare) / 1e6,
        "through_shepherd_ms": statistics.median(shepherded) / 1e6,
        "shepherd_share_ms": (statistics.median(shepherded) - statistics.median(bare)) / 1e6,
        "shepherd_share_cpu_ms": (statistics.median(shepherded_cpu) - statistics.median(bare_cpu)) * 1e3,
    }


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def _last_seq(folder: RunFolder) -> int:
    try:
        with RunReader(folder.store) as reader:
            return reader.last_seq()
    except StoreMissing:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mosaic-telemetry-") as base:
        results = throughput(Path(base), options.events) | first_line(Path(base))
    for name, value in results.items():
        print(f"{name:<28} {value:14,.1f}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
