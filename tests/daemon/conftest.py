"""Real daemons in homes of their own, real shepherds, and workers that are small: shell scripts, and `counter`."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from mosaic.client import Client
from mosaic.envs import InstalledWorker
from mosaic.paths import Home
from mosaic.shepherd.clearing import kill_leftovers
from mosaic.shepherd.lock import is_locked, read_shepherd
from mosaic.shepherd.recovery import bury

T = TypeVar("T")
ENDED = {"SUCCEEDED", "FAILED", "CANCELLED", "LOST"}


def wait_for(condition: Callable[[], T], what: str, timeout: float = 45.0) -> T:
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(0.02)


class Daemon:
    """A home and the daemon in it, which may be killed and started again."""

    def __init__(self, home: Home, **environment: str) -> None:
        self.home = home
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Client(home)
        self.log = home.root / "daemon-test.log"
        home.root.mkdir(parents=True, exist_ok=True)

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"MOSAIC_HOME": str(self.home.root), "MOSAIC_CPUS": "2"} | self.environment
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "mosaic.daemon", "--port", "0", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def start(self, *arguments: str) -> Daemon:
        self.process = self.spawn(*arguments)
        pid = self.process.pid

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            try:
                return bool(json.loads(self.home.daemon_info.read_bytes())["pid"] == pid)
            except (FileNotFoundError, ValueError):
                return False

        wait_for(ready, "the daemon")
        return self

    def kill(self) -> None:
        """As the kernel would: at once, with nothing said."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process = None

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Just the headers given: no token of its own."""
        url = urlsplit(json.loads(self.home.daemon_info.read_bytes())["url"])
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
        given = headers or {}
        connection.putrequest(method, path, skip_host="Host" in given)
        data = b"" if body is None else json.dumps(body).encode()
        for name, value in {"Content-Length": str(len(data)), **given}.items():
            connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        kind = answer.headers.get("Content-Type", "")
        is_json = content and kind.startswith("application/json")
        return answer.status, json.loads(content) if is_json else content, answer.headers

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """With the token; the answer must be a good one."""
        status, answer, _ = self.request(method, f"/api/v1{path}", body, self.bearer)
        assert status < 400, answer
        return answer

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.home.token.read_text().strip()}"}

    def script(self, text: str, **spec: Any) -> str:
        """Submit a shell script; its run_id."""
        path = self.home.root / f"script-{time.monotonic_ns()}.sh"
        path.write_text(text)
        return str(self.api("POST", "/runs", {"worker": "script", "config": {"file": str(path)}, **spec})["run_id"])

    def counter(self, config: dict[str, Any] | None = None, **spec: Any) -> str:
        """Submit a run of the counting worker (`install_counter` first); its run_id."""
        return str(self.api("POST", "/runs", {"worker": "counter", "config": config or {}, **spec})["run_id"])

    def view(self, run_id: str) -> dict[str, Any]:
        view: dict[str, Any] = self.api("GET", f"/runs/{run_id}")
        return view

    def wait_state(self, run_id: str, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            view = self.view(run_id)
            assert view["state"] in states or view["state"] not in ENDED, view
            return view if view["state"] in states else None

        return wait_for(reached, f"{run_id} to be {' or '.join(states)}")

    def wait_ended(self, run_id: str) -> dict[str, Any]:
        return wait_for(lambda: view if (view := self.view(run_id))["state"] in ENDED else None, f"{run_id} to end")

    def wait_checkpoint(self, run_id: str) -> None:
        wait_for(
            lambda: self.api("GET", f"/runs/{run_id}/checkpoints")["checkpoints"], f"{run_id} to save a checkpoint"
        )

    def shepherd_pid(self, run_id: str) -> int:
        return wait_for(lambda: read_shepherd(self.home.run(run_id)), "shepherd.json").pid

    def install_counter(self) -> None:
        """What an installed worker leaves in `envs`, with the tests' own Python and the module below this folder."""
        folder = self.home.envs / "counter"
        python = folder / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        here = Path(__file__).parent / "workers"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(here))} exec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        InstalledWorker(
            name="counter",
            module="counter_worker",
            distribution="counter-worker",
            version="0.1.0",
            folder=folder,
            source="counter-worker",
            editable=False,
            extras=(),
            installed=time.time(),
            fingerprint="",
        ).write()

    def clean_up(self) -> None:
        if self.process is not None:
            self.kill()
        for path in self.home.runs.glob("[!.]*"):
            folder = self.home.run(path.name)
            info = read_shepherd(folder)
            if info is not None and is_locked(folder):
                os.kill(info.pid, signal.SIGKILL)
            kill_leftovers(path.name)
            bury(folder, grace_s=0.0)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Not started yet."""
    made = Daemon(Home(tmp_path / "home"))
    yield made
    made.clean_up()


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests of a module, with the counting worker installed."""
    made = Daemon(Home(tmp_path_factory.mktemp("shared") / "home"))
    made.install_counter()
    made.start()
    yield made
    made.clean_up()
