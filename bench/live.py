"""Live frames over the WebSocket: from publishing in a worker to the message in a client, at 60 Hz, 640x480.

    ./mosaic bench live [--seconds 10]

A publisher in a process of its own, the daemon, and real clients that acknowledge what they get: one, then five, then
one beside another that reads four frames a second. Target: p50 under 10 ms.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from daemon_home import BenchDaemon
from idle import cpu_seconds
from websockets.sync.client import connect

from mosaic.fastlane import FastLaneWriter, stream_path
from mosaic.shepherd.launch import shared_memory_folder

OUT = Path(__file__).parent / "out" / "live.json"
TARGET_MS = 10
SHAPE = (480, 640, 3)
HZ = 60
SLOW_PAUSE_S = 0.25


def publish(folder: Path, stop: Event) -> None:
    """Frames that are as hard to encode as a rendered scene: fine noise over large shapes, all of it moving."""
    random = np.random.default_rng(0)
    shapes = np.kron(random.integers(0, 200, (15, 20, 3)), np.ones((32, 32, 1))).astype(np.uint8)
    noise = random.integers(0, 24, SHAPE, dtype=np.uint8)
    pictures = [np.roll(shapes, 7 * shift, axis=1) + np.roll(noise, shift, axis=0) for shift in range(16)]
    with FastLaneWriter(stream_path(folder, "env-0"), SHAPE) as writer:
        due = time.monotonic()
        step = 0
        while not stop.is_set():
            step += 1
            writer.publish(pictures[step % len(pictures)], step=step)
            due += 1 / HZ
            time.sleep(max(0.0, due - time.monotonic()))


class Viewer(threading.Thread):
    def __init__(self, daemon: BenchDaemon, run_id: str, *, pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._url = daemon.url.replace("http", "ws") + f"/api/v1/runs/{run_id}/streams/env-0/live"
        self._bearer = daemon.bearer
        self._pause = pause
        self.latencies_ms: list[float] = []
        self.bytes = 0
        self.stopped = False
        self.began = threading.Event()

    def run(self) -> None:
        with connect(
            self._url, additional_headers=self._bearer, compression=None, proxy=None, max_size=None
        ) as connection:
            while not self.stopped:
                message = connection.recv(timeout=10)
                now = time.time()
                assert isinstance(message, bytes)
                length = int.from_bytes(message[:4], "little")
                header = json.loads(message[4 : 4 + length])
                self.latencies_ms.append(1000 * (now - header["time"]))
                self.bytes += len(message)
                self.began.set()
                time.sleep(self._pause)
                connection.send(json.dumps({"ack": header["id"]}))


def measure(daemon: BenchDaemon, run_id: str, viewers: list[Viewer], seconds: float) -> dict[str, float]:
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.began.wait(60)
    time.sleep(1.0)
    before = [len(viewer.latencies_ms) for viewer in viewers], cpu_seconds(daemon.pid)
    time.sleep(seconds)
    cpu = 100 * (cpu_seconds(daemon.pid) - before[1]) / seconds
    first = viewers[0]
    taken = sorted(first.latencies_ms[before[0][0] :])
    for viewer in viewers:
        viewer.stopped = True
        viewer.join()
    return {
        "p50_ms": statistics.median(taken),
        "p95_ms": taken[int(0.95 * (len(taken) - 1))],
        "frames_per_s": len(taken) / seconds,
        "kib_per_frame": first.bytes / len(first.latencies_ms) / 1024,
        "daemon_cpu_percent": cpu,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    seconds = parser.parse_args().seconds
    results = {}
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as base, BenchDaemon(Path(base) / "home") as daemon:
        script = Path(base) / "sleep.sh"
        script.write_text("#!/bin/sh\nexec sleep 3600\n")
        run_id = daemon.api("POST", "/runs", {"worker": "script", "config": {"file": str(script)}})["run_id"]
        folder = shared_memory_folder(run_id)
        folder.mkdir(mode=0o700)
        stop = multiprocessing.get_context("spawn").Event()
        publisher = multiprocessing.get_context("spawn").Process(target=publish, args=(folder, stop))
        publisher.start()
        try:
            for name, others in (
                ("one viewer", []),
                ("five viewers", [Viewer(daemon, run_id) for _ in range(4)]),
                ("one beside a slow one", [Viewer(daemon, run_id, pause=SLOW_PAUSE_S)]),
            ):
                results[name] = measure(daemon, run_id, [Viewer(daemon, run_id), *others], seconds)
        finally:
            stop.set()
            publisher.join()
            shutil.rmtree(folder, ignore_errors=True)
            daemon.api("DELETE", f"/runs/{run_id}?force=true")
    columns = list(results["one viewer"])
    print(f"{f'publish to client (target p50 {TARGET_MS} ms)':38}" + "".join(f"{column:>20}" for column in columns))
    for name, row in results.items():
        print(f"{name:38}" + "".join(f"{row[column]:20.1f}" for column in columns))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
