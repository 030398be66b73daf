"""The platform's own environment, `.venv` of the checkout: made, repaired and brought up to date.

The launcher `mosaic` calls this with the machine's bare Python whenever the stamp in `.venv` is not the one it expects,
so everything imported here is standard library. The stamp is written last: a `.venv` without one is remade.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from mosaic.envs.errors import EnvsError, InstallFailed
from mosaic.envs.locks import Report, held
from mosaic.envs.tools import Tools, base_python
from mosaic.files import write_atomic
from mosaic.paths import CHECKOUT


@dataclass(frozen=True)
class CoreEnv:
    """The `.venv` of one checkout."""

    checkout: Path

    @property
    def venv(self) -> Path:
        return self.checkout / ".venv"

    @property
    def lock_file(self) -> Path:
        return self.checkout / "requirements.lock"

    @property
    def test_lock_file(self) -> Path:
        return self.checkout / "requirements-test.lock"

    @property
    def stamp(self) -> Path:
        """What the launcher looks at: the checkout's path, the checksum of requirements.lock, what must be there."""
        return self.venv / "mosaic.stamp"

    @property
    def test_stamp(self) -> Path:
        return self.venv / "mosaic-test.stamp"

    def ready(self) -> bool:
        return self._is_whole() and self._stamped()[1] == checksum(self.lock_file)

    def prepare(self, report: Report) -> None:
        """Make `.venv` ready: nothing to do, new pins into the one that is there, or a new one."""
        with self._locked(report) as tools:
            if self.ready():
                return
            if self._belongs_here():
                report("requirements.lock has changed: bringing .venv up to date")
            else:
                report(f"setting up .venv with Python {sys.version.split()[0]} (once; a minute or so)")
                self._make_anew(tools, report)
            self.stamp.unlink(missing_ok=True)
            uv = re.search(r"^uv==\S+", self.lock_file.read_text(), re.MULTILINE)
            if uv is None:
                raise EnvsError(f"{self.lock_file} does not pin uv")
            tools.pip(["install", "-qq", "--disable-pip-version-check", uv.group()], report)
            install: list[str | Path] = ["pip", "install", "--python", tools.python]
            tools.uv([*install, "-r", self.lock_file], brief(report))
            tools.uv([*install, "--quiet", "--no-deps", "-e", self.checkout], report)
            lines = [str(self.checkout), checksum(self.lock_file), *self._parts()]
            write_atomic(self.stamp, "".join(f"{line}\n" for line in lines).encode())

    def prepare_for_tests(self, report: Report) -> None:
        """Add the test group and the reference worker to a `.venv` that is ready."""
        worker = self.checkout / "workers" / "tabular_worker"
        wanted = f"{checksum(self.test_lock_file)}\n{checksum(worker / 'pyproject.toml')}\n"
        with self._locked(report) as tools:
            if read(self.test_stamp) == wanted:
                return
            report("installing what the tests need")
            install: list[str | Path] = ["pip", "install", "--python", tools.python]
            tools.uv([*install, "-r", self.test_lock_file], brief(report))
            tools.uv([*install, "--quiet", "--no-deps", "-e", worker], report)
            write_atomic(self.test_stamp, wanted.encode())

    def _belongs_here(self) -> bool:
        """Was this `.venv` once finished, at this very place, is all of it there, and does its Python still run?"""
        python = self.venv / "bin" / "python"
        return self._is_whole() and subprocess.run([python, "-m", "pip", "--version"]).returncode == 0

    def _stamped(self) -> tuple[str, str, list[str]]:
        place, lock_sum, *parts = [*read(self.stamp).splitlines(), "", ""]
        return place, lock_sum, parts

    def _is_whole(self) -> bool:
        place, _, parts = self._stamped()
        if place != str(self.checkout) or not os.access(self.venv / "bin" / "python", os.X_OK):
            return False
        return all((self.venv / part).exists() for part in parts)

    def _parts(self) -> list[str]:
        """What the `.venv` is not whole without: each package's modules, the link to our source."""
        parts = {"pyvenv.cfg"}
        for site in self.venv.glob("lib/python3.*/site-packages"):
            for distribution in distributions(path=[str(site)]):
                first = {file.parts[0] for file in distribution.files or ()}
                # Not the metadata: its name says the version, which a person may change.
                modules = {name for name in first if not name.endswith(".dist-info") and (site / name).exists()}
                parts |= {str((site / name).relative_to(self.venv)) for name in modules - {"..", "__pycache__"}}
        return sorted(parts)

    def _make_anew(self, tools: Tools, report: Report) -> None:
        if os.path.lexists(self.venv):
            # Renamed first: a removal that is interrupted must not leave half of something called `.venv`.
            self.venv.rename(self.checkout / f".venv.old.{os.getpid()}")
        for old in self.checkout.glob(".venv.old.*"):
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink()
        tools.run([base_python(), "-m", "venv", self.venv], report, dict(os.environ))

    @contextmanager
    def _locked(self, report: Report) -> Iterator[Tools]:
        with held(self.checkout / ".venv.lock", report, "another mosaic is setting up .venv: waiting for it") as lock:
            yield Tools(self.venv, hold=(lock,))


def checksum(file: Path) -> str:
    """What POSIX `cksum` says of the file's content: the launcher, a shell script, says the same."""
    with file.open("rb") as content:
        return subprocess.run(["cksum"], stdin=content, capture_output=True, text=True, check=True).stdout.strip()


def read(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def brief(report: Report) -> Report:
    """Passes on uv's downloads and totals, not every package by name."""
    wanted = ("Downloading", "Prepared", "Installed", "error", "warning")
    return lambda line: report(line.strip()) if line.lstrip().startswith(wanted) else None


def say(line: str) -> None:
    print(f"mosaic: {line}", file=sys.stderr, flush=True)


def main() -> int:
    os.environ.pop("PYTHONPATH", None)  # set by the launcher for this process alone
    try:
        CoreEnv(CHECKOUT).prepare(say)
    except InstallFailed as failure:
        say(f"setting up .venv failed: {failure}")
        return 1
    except EnvsError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
