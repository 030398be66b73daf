"""Hundreds of randomised trials: whatever is killed at whatever moment, every promise is checked afterwards.

    ./mosaic bench chaos [--trials 300] [--system 100] [--seed 0] [--jobs 2]

--trials: one run and its shepherd each. --system: a daemon with several runs each; every third one on a small disk
that is filled now and then, where mounting one is permitted. A trial is repeated by its seed: --seed N --system 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos_system import SystemTrial
from chaos_trial import Trial, Violation

from mosaic.client import MosaicError

OUT = Path(__file__).parent / "out" / "chaos.json"


def may_mount(base: Path) -> bool:
    place = base / "mount-test"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True, check=False).returncode == 0
    if mounted:
        subprocess.run(["umount", place], check=True)
    return mounted


def shepherd_trial(seed: int, base: Path) -> Counter[str]:
    return Counter(attempt.rsplit(": ", 1)[1] for attempt in Trial(seed, base).run())


def make_all(trial: Callable[[int], Counter[str]], seeds: range, jobs: int) -> tuple[Counter[str], list[str]]:
    def one(seed: int) -> Counter[str] | str:
        try:
            return trial(seed)
        except Violation as violation:
            return str(violation)
        except MosaicError as error:
            return f"seed {seed}: {type(error).__name__}: {error}"

    endings: Counter[str] = Counter()
    violations: list[str] = []
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(one, seeds):
            if isinstance(result, str):
                violations.append(result)
                print(f"BROKEN: {result}", flush=True)
            else:
                endings += result
    return endings, violations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--system", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="mosaic-chaos-") as folder:
        base = Path(folder)
        mountable = may_mount(base)
        trials: dict[str, tuple[int, Callable[[int], Counter[str]]]] = {
            "shepherd": (options.trials, lambda seed: shepherd_trial(seed, base)),
            "system": (
                options.system,
                lambda seed: SystemTrial(seed, base, small_disk=mountable and seed % 3 == 0).run(),
            ),
        }
        for name, (count, trial) in trials.items():
            started = time.monotonic()
            endings, violations = make_all(trial, range(options.seed, options.seed + count), options.jobs)
            seconds = time.monotonic() - started
            print(f"{name}: {count} trials, {seconds:.0f} s, {len(violations)} broken promises")
            for ending, number in endings.most_common():
                print(f"  {ending:<28} {number:6}")
            results[name] = {"trials": count, "seconds": seconds, "endings": endings, "violations": violations}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    return 1 if any(result["violations"] for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
