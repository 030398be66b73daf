"""The command line as people use it: real processes, a real daemon, the reference worker; one home per test process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mosaic.client import Client
from mosaic.paths import Home

COMMAND = (sys.executable, "-P", "-m", "mosaic.cli")
TIMEOUT_S = 90


@dataclass(frozen=True)
class Mosaic:
    """The `mosaic` command in one home folder."""

    home: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        return {**kept, "MOSAIC_HOME": str(self.home), "OMP_NUM_THREADS": "1", **self.env}

    def start(self, *arguments: str, **settings: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([*COMMAND, *arguments], env=self.environment, cwd=self.cwd, text=True, **settings)

    def __call__(self, *arguments: str, input: str = "", code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment,
            cwd=self.cwd,
            input=input,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if code is not None:
            assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).stdout)

    @property
    def client(self) -> Client:
        return Client(self.home)

    def short_run(self, *arguments: str, name: str | None = None) -> dict[str, Any]:
        """A run of the reference worker that takes a fraction of a second, waited for."""
        given = ["--total-timesteps", "3000", "--report-every", "500", *(["--name", name] if name else []), *arguments]
        view: dict[str, Any] = self.json("train", "tabular", *given, "--wait")
        return view

    def quick_run(self, name: str, *, tag: str = "quick") -> dict[str, Any]:
        """The cheapest run there is, waited for: a shell script that does nothing."""
        script = self.cwd / "nothing.sh"
        script.write_text("#!/bin/sh\n")
        run = self.client.submit("script", {"file": str(script)}, name=name, tags=[tag])
        return run.wait(TIMEOUT_S, check=True).view

    def endless_run(self, name: str) -> None:
        """A run that goes on until somebody ends it; returns once it runs."""
        config = {"total_timesteps": 10**12, "checkpoint_every": 20_000}
        run = self.client.submit("tabular", config, name=name)
        for row in run.follow(kinds=["metric"]):
            if row["type"] == "metric":
                break


@pytest.fixture(scope="session")
def bare_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the reference worker installed, and no daemon."""
    root = tmp_path_factory.mktemp("home")
    Mosaic(root, root)("worker", "install", "tabular")
    return root


@pytest.fixture(scope="session")
def daemon_home(bare_home: Path) -> Iterator[Path]:
    mosaic = Mosaic(bare_home, bare_home)
    mosaic("up")
    yield bare_home
    mosaic("down", "--cancel-runs", code=None)


@pytest.fixture
def mosaic(daemon_home: Path, tmp_path: Path) -> Mosaic:
    """The command with a daemon that runs."""
    return Mosaic(daemon_home, tmp_path)


@pytest.fixture
def no_daemon(tmp_path: Path) -> Mosaic:
    """The command in an empty home."""
    return Mosaic(tmp_path / "home", tmp_path)


@pytest.fixture
def own_home(tmp_path: Path, bare_home: Path) -> Iterator[Callable[[], Mosaic]]:
    """Makes homes of the test's own, with the installed worker of the shared one; their daemons end with the test."""
    made: list[Mosaic] = []

    def make() -> Mosaic:
        home = tmp_path / f"home{len(made)}"
        home.mkdir()
        (home / "envs").symlink_to(Home(bare_home).envs)
        made.append(Mosaic(home, tmp_path))
        return made[-1]

    yield make
    for mosaic in made:
        mosaic("down", "--cancel-runs", code=None)


@pytest.fixture(scope="session")
def mosaic_class() -> type[Mosaic]:
    return Mosaic


@pytest.fixture(scope="session")
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Waits for a condition, with a deadline."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.02)

    return wait
