"""How long a plot of a long metric takes: written through the store's writer, asked for in many ranges.

./mosaic bench plot [--points 10000000] [--max-points 2000] [--repeats 20] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mosaic.store import RunReader, RunWriter
from mosaic.worker.messages import Metric

OUT = Path(__file__).parent / "out" / "plot.json"
BATCH = 5000


def main() -> None:
    arguments = parse()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder) / "run.sqlite"
        built = None if path.exists() else build(path, arguments.points)
        with RunReader(path) as reader:
            (info,) = [series for series in reader.series() if series.name == "loss"]
            queries = [measure(reader, arguments, *query) for query in ranges(info.first_step, info.last_step)]
        result = {
            "points": info.points,
            "max_points": arguments.max_points,
            "points_written_per_s": built,
            "bytes_per_point": path.stat().st_size / info.points,
            "queries": queries,
            "worst_ms": max(query["max_ms"] for query in queries),
        }
    show(result)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--max-points", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="keep the store there; if it is there already, use it")
    return parser.parse_args()


def build(path: Path, points: int) -> float:
    """Two attempts that meet in the middle; a tenth of the first one's points are superseded. Points per second."""
    writer = RunWriter(path)
    half, superseded = points // 2, points // 20
    started = time.perf_counter()
    writer.begin_attempt(1, started=time.time())
    write(writer, 1, half + superseded)
    writer.begin_attempt(2, started=time.time(), resumed_step=half)
    write(writer, half + 1, points - half)
    writer.close()
    return (points + superseded) / (time.perf_counter() - started)


def write(writer: RunWriter, step: int, points: int) -> None:
    dice = random.Random(step)
    for start in range(0, points, BATCH):
        steps = range(step + start, step + min(start + BATCH, points))
        writer.append([Metric(step=now, values={"loss": dice.gauss(0.0, 1.0)}) for now in steps], time.time())
        writer.commit()


def ranges(first: int, last: int) -> Iterator[tuple[str, int | None, int | None]]:
    span = last - first
    yield "whole", None, None
    # 28% of ten millions just does not fit the coarser buckets: the most work.
    for name, share in (("half", 0.5), ("28%", 0.28), ("10%", 0.1), ("1%", 0.01), ("0.01%", 0.0001)):
        for where in (0.0, 0.31, 1.0 - share):
            start = first + int(span * where)
            yield f"{name} from {where:.0%}", start, start + int(span * share)


def measure(
    reader: RunReader, arguments: argparse.Namespace, name: str, start: int | None, stop: int | None
) -> dict[str, Any]:
    times, cpu = [], []
    for _ in range(arguments.repeats):
        started, cpu_started = time.perf_counter(), time.process_time()
        plot = reader.plot("loss", max_points=arguments.max_points, start=start, stop=stop)
        times.append((time.perf_counter() - started) * 1000)
        cpu.append((time.process_time() - cpu_started) * 1000)
    return {
        "range": name,
        "start": start,
        "stop": stop,
        "plot_points": len(plot),
        "raw_points": sum(point.count for point in plot),
        "first_ms": times[0],
        "median_ms": statistics.median(times),
        "max_ms": max(times),
        "median_cpu_ms": statistics.median(cpu),
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['points']:,} visible points, {result['bytes_per_point']:.0f} bytes each", end="")
    print(f", written at {result['points_written_per_s']:,.0f}/s" if result["points_written_per_s"] else "")
    print(
        f"{'range':<16}{'raw points':>12}{'plot points':>13}{'first ms':>10}{'median ms':>11}{'max ms':>9}{'cpu ms':>9}"
    )
    for query in result["queries"]:
        print(
            f"{query['range']:<16}{query['raw_points']:>12,}{query['plot_points']:>13,}"
            f"{query['first_ms']:>10.1f}{query['median_ms']:>11.1f}{query['max_ms']:>9.1f}"
            f"{query['median_cpu_ms']:>9.1f}"
        )
    print(f"worst {result['worst_ms']:.1f} ms")


if __name__ == "__main__":
    main()
