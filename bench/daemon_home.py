"""A daemon in a home of its own, for the benches."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from mosaic.paths import Home


class BenchDaemon:
    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return str(json.loads(self.home.daemon_info.read_bytes())["url"])

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.home.token.read_text().strip()}"}

    def __enter__(self) -> Self:
        self.home.trainer.mkdir(parents=True, exist_ok=True)
        with self.home.daemon_log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mosaic.daemon", "--port", "0"],
                stdout=log,
                stderr=log,
                env=users_environment() | {"MOSAIC_HOME": str(self.home.root)},
            )
        while not self.home.daemon_info.exists():
            if self._process.poll() is not None:
                raise RuntimeError(self.home.daemon_log.read_text())
            time.sleep(0.02)
        return self

    def __exit__(self, *details: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def api(self, method: str, path: str, body: Any = None) -> Any:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, f"/api/v1{path}", data, self.bearer)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status}: {content}")
        return content


def users_environment() -> dict[str, str]:
    """As on a user's machine: Python keeps what it has compiled. Some containers forbid it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
