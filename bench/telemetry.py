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

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import read_exit
from mosaic.shepherd.launch import Launch, shepherd_command
from mosaic.store import RunReader, StoreMissing

OUT = Path(__file__).parent / "out" / "telemetry.json"

# What a loop over env.step would say, by the emitter that workers use.
WORKER = """
import sys, time
from mosaic.worker.messages import Step
import msgspec
encoder = msgspec.json.Encoder()
lines = bytearray()
for step in range(1, int(sys.argv[1]) + 1):
    lines += encoder.encode(Step(time=time.time(), step=step, reward=0.5, episode=step // 200))
    lines += b"\\n"
    if len(lines) > 60_000:
        sys.stdout.buffer.write(lines)
        lines.clear()
sys.stdout.buffer.write(lines)
sys.stdout.flush()
"""
# Starting Python costs what it costs: the worker reports when its first line runs.
FIRST_LINE = "import sys, time; print(time.monotonic_ns(), file=sys.stderr)"


def start(folder: RunFolder, argv: list[str]) -> subprocess.Popen[bytes]:
    folder.path.mkdir(parents=True)
    folder.logs.mkdir()
    folder.launch.write_bytes(msgspec.json.encode(Launch(run_id=folder.run_id, attempt=1, argv=argv)))
    return subprocess.Popen(shepherd_command(folder), stdin=subprocess.DEVNULL, start_new_session=True)


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
    return {
        "events": events,
        "seconds": seconds,
        "events_per_s": events / seconds,
        "shepherd_peak_mb": usage.ru_maxrss / 1024,
        "shepherd_cpu_s": usage.ru_utime + usage.ru_stime,
    }


def first_line(base: Path, rounds: int = 11) -> dict[str, float]:
    """From spawning the shepherd to the worker's first line, beyond what a bare interpreter takes to get there."""
    argv = [sys.executable, "-c", FIRST_LINE]
    bare, shepherded = [], []
    for index in range(rounds):
        before = time.monotonic_ns()
        bare.append(int(subprocess.run(argv, capture_output=True, check=True).stderr) - before)
        folder = RunFolder(base / f"FIRST-{index}")
        before = time.monotonic_ns()
        start(folder, argv).wait()
        shepherded.append(int(folder.worker_log.read_text()) - before)
    return {
        "bare_interpreter_ms": statistics.median(bare) / 1e6,
        "through_shepherd_ms": statistics.median(shepherded) / 1e6,
        "shepherd_share_ms": (statistics.median(shepherded) - statistics.median(bare)) / 1e6,
    }


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
        print(f"{name:<22} {value:14,.1f}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
