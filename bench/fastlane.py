"""What the lane costs and whether it ever lies. `./mosaic bench fastlane`, or `python bench/fastlane.py --help`.

Everything that is compared is run in turns in one process, so that both sides meet the same noise; times of training
loops are CPU times. A peer's implementation joins the publish table: `--peer module`, a Python module that offers
`open_writer(height, width, channels) -> publish`, a function that takes one frame.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.fastlane import FastLaneReader, FastLaneWriter, Settings, discover, stream_path, wrap_env

OUT = Path(__file__).parent / "out" / "fastlane.json"
SHAPES = ((84, 84, 3), (480, 640, 3))
SPAWN = multiprocessing.get_context("spawn")
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="module of another implementation, measured in the same run")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--frames", type=int, default=1_000_000, help="frames of the torn-frame hammer")
    parser.add_argument("--steps", type=int, default=500_000, help="CartPole steps on each side")
    arguments = parser.parse_args()
    results: Result = {"machine": platform.machine(), "python": platform.python_version(), "cpus": os.cpu_count()}
    for name in arguments.only:
        results[name] = PARTS[name](arguments)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {OUT.relative_to(Path.cwd()) if OUT.is_relative_to(Path.cwd()) else OUT}")


@contextlib.contextmanager
def lane_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mosaic-bench-", dir="/dev/shm"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def pin(number: int) -> None:
    """0: the first core, which is the writer's; others: one of the rest, in turn."""
    first, *rest = range(os.cpu_count() or 1)
    os.sched_setaffinity(0, {rest[(number - 1) % len(rest)] if number and rest else first})


# --- publish against a plain copy ---


def bench_publish(arguments: argparse.Namespace) -> Result:
    print("\npublish against numpy.copyto of the same frame into the same ring, in turns, times in us")
    print(f"{'frame':>12} {'what':<14} {'p50':>8} {'p99':>8} {'p50 - copy':>11} {'p50 / copy':>11}")
    results: Result = {}
    for shape in SHAPES:
        with lane_folder() as folder:
            times = _publish_times(folder, shape, arguments.peer)
        copy = float(np.percentile(times["numpy.copyto"], 50))
        for name, nanoseconds in times.items():
            p50, p99 = (float(np.percentile(nanoseconds, q)) for q in (50, 99))
            label = "x".join(map(str, shape))
            print(
                f"{label:>12} {name:<14} {p50 / 1e3:8.2f} {p99 / 1e3:8.2f} {(p50 - copy) / 1e3:11.2f}"
                f" {p50 / copy:11.3f}"
            )
            results[f"{label} {name}"] = {"p50_us": p50 / 1e3, "p99_us": p99 / 1e3, "ratio": p50 / copy}
    return results


def _publish_times(folder: Path, shape: tuple[int, int, int], peer: str | None) -> dict[str, np.ndarray]:
    frame = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    writer = FastLaneWriter(stream_path(folder, "bench"), shape)
    slots = [turn[1] for turn in writer._turns]
    state = {"copies": 0, "step": 0}

    def copy() -> Callable[[], None]:
        # The slot that the next publish writes, so both sides meet the same cache.
        target = slots[state["copies"] % len(slots)]
        state["copies"] += 1
        return lambda: np.copyto(target, frame)

    def publish() -> Callable[[], None]:
        state["step"] += 1
        step = state["step"]
        return lambda: writer.publish(frame, 3, step, 1.0, 21.5, 1234.5, b"agent_0")

    sides: dict[str, Callable[[], Callable[[], None]]] = {"numpy.copyto": copy, "publish": publish}
    if peer:
        peer_publish = importlib.import_module(peer).open_writer(*shape)
        sides[peer] = lambda: lambda: peer_publish(frame)
    rounds = 60_000 if shape[0] < 100 else 6_000
    times = {name: np.empty(rounds) for name in sides}
    clock = time.perf_counter_ns
    for turn in range(rounds):
        for name, prepare in sides.items():
            action = prepare()
            begin = clock()
            action()
            times[name][turn] = clock() - begin
    writer.close()
    return {name: nanoseconds[rounds // 10 :] for name, nanoseconds in times.items()}


# --- readers ---


def _read(path: Path, hertz: float, cpu: int, ready: Event, stop: Event) -> None:
    """A reader in a process of its own; 0 Hz: as fast as it can."""
    pin(cpu)
    reader = FastLaneReader(path)
    ready.set()
    while not stop.is_set():
        reader.latest()
        if hertz:
            time.sleep(1 / hertz)


@contextlib.contextmanager
def readers(path: Path, rates: list[float]) -> Iterator[None]:
    stop = SPAWN.Event()
    started = []
    for number, hertz in enumerate(rates):
        ready = SPAWN.Event()
        process = SPAWN.Process(target=_read, args=(path, hertz, 1 + number, ready, stop), daemon=True)
        process.start()
        started.append((process, ready))
    try:
        for _, ready in started:
            ready.wait(60)
        yield
    finally:
        stop.set()
        for process, _ in started:
            process.join(10)


def bench_readers(arguments: argparse.Namespace) -> Result:
    print(
        "\nwriter's cost of one publish with readers on the other cores, CPU time, each beside its own readerless turns"
    )
    print(f"{'frame':>12} {'readers':<12} {'us a frame':>11} {'without':>9} {'throughput kept':>16}")
    results: Result = {}
    crowds = {"none (noise)": [], "one at 60 Hz": [60.0], "ten at 60 Hz": [60.0] * 10, "one spinning": [0.0]}
    pin(0)
    for shape in SHAPES:
        with lane_folder() as folder:
            writer = FastLaneWriter(stream_path(folder, "bench"), shape)
            frame = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
            count = 20_000 if shape[0] < 100 else 1_500
            for name, rates in crowds.items():
                alone, crowded = [], []
                for _ in range(5):
                    alone.append(_cost(writer, frame, count))
                    with readers(writer.path, rates):
                        crowded.append(_cost(writer, frame, count))
                with_readers, without = statistics.median(crowded), statistics.median(alone)
                label = "x".join(map(str, shape))
                print(f"{label:>12} {name:<12} {with_readers:11.2f} {without:9.2f} {without / with_readers:15.1%}")
                results[f"{label} {name}"] = {"us": with_readers, "alone_us": without, "kept": without / with_readers}
            writer.close()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return results


def _cost(writer: FastLaneWriter, frame: np.ndarray, count: int) -> float:
    best = float("inf")
    for _ in range(10):
        begin = time.process_time_ns()
        for step in range(count // 10):
            writer.publish(frame, 1, step)
        best = min(best, (time.process_time_ns() - begin) / (count // 10) / 1e3)
    return best


# --- torn frames ---


def _hammer_writer(path: Path, shape: tuple[int, int, int], frames: int, ready: Any, done: Any) -> None:
    pin(0)
    writer = FastLaneWriter(path, shape)
    picture = np.empty(shape, np.uint8)
    ready.wait()
    for number in range(1, frames + 1):
        picture.fill(number * 37 % 251)
        writer.publish(picture, number % 1000, number, float(number), -float(number), 0.5 * number, b"%d" % number)
    done.value = 1
    writer.close()


def _hammer_reader(path: Path, cpu: int, ready: Any, done: Any, out: Any) -> None:
    pin(cpu)
    reader = FastLaneReader(path)
    ready.wait()
    read = torn = alien = views = 0
    last = 0
    buffer: np.ndarray | None = None
    while True:
        finished = done.value
        frame = reader.latest(buffer)
        if frame is not None:
            buffer = frame.pixels
            info = frame.info
            number = info.number
            value = number * 37 % 251
            read += 1
            torn += not bool((frame.pixels == value).all())
            same = (info.episode, info.step, info.last_reward, info.rolling_return, info.step_rate_hz, info.agent)
            alien += same != (number % 1000, number, float(number), -float(number), 0.5 * number, str(number))
            alien += number <= last
            last = number
        view = reader.view()
        if view is not None:
            whole = bool((view.pixels == view.info.number * 37 % 251).all())
            if view.is_valid():
                views += 1
                torn += not whole
        if finished and frame is None:
            break
    out.put((read, views, torn, alien))


def bench_torn(arguments: argparse.Namespace) -> Result:
    print(f"\ntorn frames: {arguments.frames} frames of a pattern each, against two spinning readers on other cores")
    print(f"{'frame':>12} {'published':>10} {'read':>10} {'views':>10} {'torn':>6} {'alien metadata':>15}")
    results: Result = {}
    for shape, share in (((84, 84, 3), 0.7), ((33, 17, 1), 0.25), ((480, 640, 3), 0.05)):
        frames = int(arguments.frames * share) + 1
        with lane_folder() as folder:
            path = stream_path(folder, "bench")
            # Nobody begins before everybody is there: a short hammering would be over before a reader is up.
            ready, done, out = SPAWN.Barrier(3), SPAWN.Value("i", 0), SPAWN.Queue()
            watchers = [SPAWN.Process(target=_hammer_reader, args=(path, 1 + n, ready, done, out)) for n in range(2)]
            for process in watchers:
                process.start()
            writer = SPAWN.Process(target=_hammer_writer, args=(path, shape, frames, ready, done))
            writer.start()
            totals = [sum(column) for column in zip(*(out.get() for _ in watchers), strict=True)]
            for process in (writer, *watchers):
                process.join()
        label = "x".join(map(str, shape))
        print(f"{label:>12} {frames:10d} {totals[0]:10d} {totals[1]:10d} {totals[2]:6d} {totals[3]:15d}")
        names = ("read", "views", "torn", "alien")
        results[label] = {"published": frames, **dict(zip(names, totals, strict=True))}
    return results


# --- a training loop ---


def _steps(env: Any, actions: list[int], seed: int | None = None) -> float:
    env.reset(seed=seed)
    begin = time.process_time_ns()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return float(time.process_time_ns() - begin)


def _watch(path: Path, stop: Event, frames: Any) -> None:
    pin(1)
    reader = FastLaneReader(path)
    while not stop.is_set():
        if reader.latest() is not None:
            frames.value += 1
        time.sleep(1 / 60)


def bench_loop(arguments: argparse.Namespace) -> Result:
    import gymnasium

    print(f"\nGymnasium CartPole-v1, random actions, {arguments.steps} steps a side, in turns of 5000, CPU time")
    print(f"{'against bare':<22} {'us a step':>10} {'bare':>8} {'speed kept':>11} {'by medians':>11} {'frames/s':>9}")
    pin(0)
    results: Result = {}
    with lane_folder() as folder:
        bare, control = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")
        hooked = wrap_env(gymnasium.make("CartPole-v1", render_mode="rgb_array"), Settings(folder))
        _steps(hooked, [0, 1] * 50)  # opens the ring and SDL: once in a run
        path = stream_path(folder, "env-0")
        stop, frames = SPAWN.Event(), SPAWN.Value("i", 0)
        watcher = SPAWN.Process(target=_watch, args=(path, stop, frames), daemon=True)
        for name, env in (
            ("bare again (noise)", control),
            ("lane on, unwatched", hooked),
            ("watched at 60 Hz", hooked),
        ):
            if name.startswith("watched"):
                watcher.start()
                while not frames.value:
                    _steps(hooked, [0, 1] * 50)
            before = frames.value
            results[name] = _in_turns(bare, env, arguments.steps)
            seconds = results[name].pop("wall_s_of_env")
            shown = (frames.value - before) / seconds
            results[name]["frames_per_s"] = shown
            row = results[name]
            print(
                f"{name:<22} {row['us']:10.3f} {row['bare_us']:8.3f} {row['kept']:10.2%} {row['kept_by_medians']:10.2%}"
                f" {shown:9.1f}"
            )
        stop.set()
        watcher.join()
        print("stream:", *discover(folder))
        hooked.close()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return results


def _in_turns(bare: Any, env: Any, steps: int) -> Result:
    rng = np.random.default_rng(1)
    bare.reset(seed=1)
    env.reset(seed=1)
    turns: list[tuple[float, float]] = []
    wall = 0.0
    for turn in range(steps // 5000):
        actions = rng.integers(0, 2, 5000).tolist()
        begin = time.monotonic()
        if turn % 2:
            theirs = _steps(env, actions, turn)
            wall += time.monotonic() - begin
            ours = _steps(bare, actions, turn)
        else:
            ours = _steps(bare, actions, turn)
            begin = time.monotonic()
            theirs = _steps(env, actions, turn)
            wall += time.monotonic() - begin
        turns.append((ours, theirs))
    bare_total, env_total = (sum(column) for column in zip(*turns, strict=True))
    return {
        "us": env_total / steps / 1e3,
        "bare_us": bare_total / steps / 1e3,
        "kept": bare_total / env_total,
        "kept_by_medians": statistics.median(b for b, _ in turns) / statistics.median(e for _, e in turns),
        "wall_s_of_env": wall,
    }


PARTS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "publish": bench_publish,
    "readers": bench_readers,
    "torn": bench_torn,
    "loop": bench_loop,
}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
