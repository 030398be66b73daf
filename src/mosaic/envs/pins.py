"""Write the lock files anew: `python -m mosaic.envs.pins [--upgrade] [WORKER ...]`.

Plain `name==version` lines for all Pythons and systems that MOSAIC runs on, without the addresses they came from.
Without WORKER: the platform's own and the tests'.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mosaic.envs.core import CoreEnv, say
from mosaic.envs.errors import EnvsError, WorkerMissing
from mosaic.envs.projects import LOCK, WorkerProject
from mosaic.envs.sources import ours_in
from mosaic.envs.tools import Tools
from mosaic.paths import CHECKOUT

_OLDEST_PYTHON = "3.11"
_CUDA = re.compile(r"^(nvidia|cuda|triton)(-\S+)?==.*\n", re.MULTILINE)


def lock_core(tools: Tools, options: Sequence[str]) -> None:
    core = CoreEnv(CHECKOUT)
    project = CHECKOUT / "pyproject.toml"
    _compile(tools, core.lock_file, _OLDEST_PYTHON, [project, "--extra", "platform", *options])
    both: list[str | Path] = [project, "--extra", "platform", "--extra", "test", "-c", core.lock_file]
    _compile(tools, core.test_lock_file, _OLDEST_PYTHON, [*both, *options])


def lock_worker(tools: Tools, worker: WorkerProject, options: Sequence[str]) -> None:
    """The worker's own lock, and one for each of its extras that agrees with it."""
    python = worker.python if re.fullmatch(r"3\.\d+", worker.python) else _OLDEST_PYTHON
    # mosaic itself and the worker are installed from their folders, so they are read here but not pinned.
    hidden = [word for name in ("mosaic-rl", worker.distribution) for word in ("--no-emit-package", name)]
    for extra in ("", *worker.extras):
        lock = worker.extra_lock(extra) if extra else worker.folder / LOCK
        constraints: list[str | Path] = ["-c", worker.folder / LOCK] if extra else []
        with tempfile.TemporaryDirectory() as folder:
            wanted = Path(folder) / "requirements.in"
            named = f"{worker.distribution}[{extra}]" if extra else worker.distribution
            wanted.write_text(f"-e {CHECKOUT.as_uri()}\n-e {named} @ {worker.folder.as_uri()}\n")
            _compile(tools, lock, python, [wanted, *constraints, *hidden, *options])
        if extra:  # what the extra adds; the rest is in the worker's own lock
            base = set((worker.folder / LOCK).read_text().splitlines())
            lock.write_text("".join(f"{line}\n" for line in lock.read_text().splitlines() if line not in base))


def _compile(tools: Tools, lock: Path, python: str, arguments: Sequence[str | Path]) -> None:
    how = ["--universal", "--python-version", python, "--no-header", "--no-annotate", "--quiet"]
    tools.uv(["pip", "compile", *how, "-o", lock, *arguments], lambda line: None)
    # `torch==2.13.0+cpu` is what this machine has; the lock says `torch==2.13.0`, and each machine takes its own build,
    # with what that build needs of CUDA: pinned, it would be gigabytes for those who have no GPU.
    pins = re.sub(r"^(\S+==[^\s+]+)\+\S+", r"\1", lock.read_text(), flags=re.MULTILINE)
    lock.write_text(_CUDA.sub("", pins))
    say(f"wrote {lock.relative_to(Path.cwd()) if lock.is_relative_to(Path.cwd()) else lock}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mosaic.envs.pins", description=__doc__)
    parser.add_argument(
        "--upgrade", action="store_true", help="take the newest versions instead of keeping what is pinned"
    )
    parser.add_argument("worker", nargs="*")
    given = parser.parse_args()
    options = ["--upgrade"] if given.upgrade else []
    tools = Tools.of_this_process()
    ours = ours_in(CHECKOUT / "workers")
    try:
        for name in given.worker:
            if name not in ours:
                raise WorkerMissing(f"there is no worker {name!r}; those that come with MOSAIC: {', '.join(ours)}")
            lock_worker(tools, ours[name], options)
        if not given.worker:
            lock_core(tools, options)
    except EnvsError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
