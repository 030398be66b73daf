"""Hundreds of randomised trials: workers and shepherds killed at random moments, then every promise is checked.

./mosaic bench chaos [--trials 300] [--seed 0] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos_trial import Trial, Violation

OUT = Path(__file__).parent / "out" / "chaos.json"


def one(seed: int, base: Path) -> tuple[int, list[str], str | None]:
    try:
        return seed, Trial(seed, base).run(), None
    except Violation as violation:
        return seed, [], str(violation)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mosaic-chaos-") as base, ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.trials)
        results = list(pool.map(lambda seed: one(seed, Path(base)), seeds))
    violations = [text for _, _, text in results if text is not None]
    endings = Counter(attempt.rsplit(": ", 1)[1] for _, attempts, _ in results for attempt in attempts)
    print(f"{options.trials} trials, {endings.total()} attempts, {time.monotonic() - started:.0f} s")
    for ending, count in endings.most_common():
        print(f"  {ending:<28} {count:6}")
    print(f"  {'broken promises':<28} {len(violations):6}")
    for text in violations:
        print(f"    {text}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"trials": options.trials, "endings": endings, "violations": violations}, indent=2))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
