"""How much telemetry goes into the store: the store's writer alone, in one process, commits included.

./mosaic bench store [--rows 1000000] [--batch 5000]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic.store import RunReader, RunWriter
from mosaic.worker.messages import AnyMessage, Episode, Log, Metric, Step

OUT = Path(__file__).parent / "out" / "store.json"

KINDS: dict[str, Callable[[int], AnyMessage]] = {
    "step": lambda i: Step(step=i, reward=i % 7 / 3, episode=i // 200),
    "step with agent and extra": lambda i: Step(step=i, reward=1.0, episode=i, agent="player_0", extra={"x": i}),
    "episode": lambda i: Episode(step=i, episode=i, episode_return=i / 3, length=200),
    "metric of 1 value": lambda i: Metric(step=i, values={"loss": 1 / (i + 1)}),
    "metric of 10 values": lambda i: Metric(step=i, values={f"losses/{k}": i / (k + 1) for k in range(10)}),
    "log": lambda i: Log(message=f"update {i} done"),
}


def main() -> None:
    arguments = parse()
    writer = {name: write(make, arguments.rows, arguments.batch) for name, make in KINDS.items()}
    result = {"rows": arguments.rows, "batch": arguments.batch, "writer": writer}
    print(f"The store's writer alone, {arguments.rows:,} rows in batches of {arguments.batch:,}")
    print(f"{'kind':<28}{'rows/s':>12}{'rows/cpu-s':>12}{'worst commit ms':>17}{'bytes/row':>11}{'peak WAL MiB':>14}")
    for name, row in writer.items():
        print(
            f"{name:<28}{row['rows_per_s']:>12,.0f}{row['rows_per_cpu_s']:>12,.0f}{row['worst_commit_ms']:>17.1f}"
            f"{row['bytes_per_row']:>11.0f}{row['peak_wal_mib']:>14.1f}"
        )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=5000)
    return parser.parse_args()


def write(make: Callable[[int], AnyMessage], rows: int, batch: int) -> dict[str, Any]:
    """Messages are made outside of the clock; appending and committing are inside."""
    wall = cpu = worst = 0.0
    peak_wal = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        writer = RunWriter(path)
        writer.begin_attempt(1, started=time.time())
        for start in range(0, rows, batch):
            messages = [make(index) for index in range(start, min(start + batch, rows))]
            started, cpu_started = time.perf_counter(), time.process_time()
            writer.append(messages, time.time())
            writer.commit()
            took = time.perf_counter() - started
            cpu += time.process_time() - cpu_started
            wall += took
            worst = max(worst, took)
            peak_wal = max(peak_wal, path.with_name("run.sqlite-wal").stat().st_size)
        with RunReader(path) as reader:
            assert reader.last_seq() == rows + 1
        writer.close()
        size = path.stat().st_size
    return {
        "rows_per_s": rows / wall,
        "rows_per_cpu_s": rows / cpu,
        "worst_commit_ms": worst * 1000,
        "bytes_per_row": size / rows,
        "peak_wal_mib": peak_wal / 2**20,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    main()
