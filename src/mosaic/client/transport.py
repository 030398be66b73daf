"""HTTP and WebSocket to the daemon of one home folder.

Address and token are read anew for every connection, so a client outlives the daemon. What HTTP needs is imported where
it is used: this package must be quick to import for the command line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mosaic import flock
from mosaic.client.errors import (
    BadConfig,
    DaemonError,
    MosaicError,
    NoDaemon,
    NoSuchRun,
    NoSuchWorker,
    NotAllowed,
    NotPossible,
)
from mosaic.paths import Home
from mosaic.system import HAS_RUNS, NEEDS_LINUX

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

PREFIX = "/api/v1"
NO_DAEMON = "no daemon is running: " + ("start it with `mosaic up`" if HAS_RUNS else NEEDS_LINUX)


@dataclass(frozen=True)
class DaemonInfo:
    """What daemon.json says about the daemon that wrote it (it may be gone)."""

    pid: int
    url: str
    version: str
    started: float
    code: str  # `mosaic.build.fingerprint` of what it runs


def read_daemon_info(home: Home) -> DaemonInfo | None:
    try:
        data = json.loads(home.daemon_info.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return DaemonInfo(data["pid"], data["url"], data["version"], data["started"], data.get("code", ""))


class Transport:
    def __init__(self, home: Home, timeout: float) -> None:
        self.home = home
        self._timeout = timeout

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None, timeout: float = 0.0
    ) -> Any:
        """The JSON answer to one request; errors become this package's exceptions."""
        status, data = self.request_bytes(method, path, query=query, body=body, timeout=timeout)
        answer = _parse(data)
        if status >= 400:
            raise _error(status, answer, method, path)
        return answer

    def request_bytes(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None, timeout: float = 0.0
    ) -> tuple[int, bytes]:
        import http.client
        from urllib.parse import urlsplit

        info, token = self._daemon()
        address = urlsplit(info.url)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        payload = None
        if body is not None:
            payload = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(
            address.hostname or "127.0.0.1", address.port, timeout=timeout or self._timeout
        )
        try:
            connection.request(method, _target(path, query), payload, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError:
            raise DaemonError(
                f"the daemon at {info.url} did not answer within {timeout or self._timeout:g} s"
            ) from None
        except (ConnectionError, http.client.HTTPException):
            raise NoDaemon(NO_DAEMON) from None
        finally:
            connection.close()

    @contextmanager
    def websocket(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[ClientConnection]:
        from websockets.exceptions import InvalidHandshake, InvalidStatus
        from websockets.sync.client import connect

        info, token = self._daemon()
        try:
            connection = connect(
                info.url.replace("http", "ws", 1) + _target(path, query),
                additional_headers={"Authorization": f"Bearer {token}"},
                open_timeout=self._timeout,
                compression=None,
                max_size=None,
                proxy=None,
            )
        except InvalidStatus as error:
            raise _error(error.response.status_code, _parse(bytes(error.response.body or b"")), "GET", path) from None
        except (OSError, InvalidHandshake, EOFError):
            raise NoDaemon(NO_DAEMON) from None
        with connection:
            yield connection

    def answers(self) -> bool:
        """Whether the daemon that daemon.json names accepts connections."""
        import socket
        from urllib.parse import urlsplit

        info = self._living()
        if info is None:
            return False
        address = urlsplit(info.url)
        try:
            with socket.create_connection((address.hostname or "127.0.0.1", address.port or 80), timeout=1.0):
                return True
        except OSError:
            return False

    def _living(self) -> DaemonInfo | None:
        """What daemon.json says, if a daemon lives: where a killed one listened somebody else may by now."""
        info = read_daemon_info(self.home)
        return info if info is not None and flock.is_held(self.home.daemon_lock) else None

    def _daemon(self) -> tuple[DaemonInfo, str]:
        info = self._living()
        if info is None:
            raise NoDaemon(NO_DAEMON)
        try:
            return info, self.home.token.read_text().strip()
        except FileNotFoundError:
            raise NoDaemon(NO_DAEMON) from None


def _target(path: str, query: Mapping[str, Any] | None) -> str:
    from urllib.parse import urlencode

    given = {key: value for key, value in (query or {}).items() if value is not None}
    return PREFIX + path + ("?" + urlencode(given) if given else "")


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return {"error": f"the daemon's answer is not JSON: {data[:80]!r}"}


def _error(status: int, answer: Any, method: str, path: str) -> MosaicError:
    message = answer.get("error") if isinstance(answer, dict) else None
    text = str(message or f"the daemon answered {status} to {path}")
    match status:
        case 401 | 403:
            return NotAllowed(text)
        case 404:
            return NoSuchWorker(text) if path.startswith("/workers") else NoSuchRun(text)
        case 409:
            # Looking conflicts with nothing: what was asked for could be several runs.
            return NoSuchRun(text) if method == "GET" else NotPossible(text)
        case 400 | 422:
            return BadConfig(text, _field_errors(answer))
        case _:
            return DaemonError(text)


def _field_errors(answer: Any) -> list[Any]:
    from mosaic.worker.validation import FieldError

    return [
        FieldError(
            error.get("field", ""),
            error.get("message", ""),
            error.get("given"),
            error.get("allowed", ""),
            error.get("suggestion"),
        )
        for error in (answer.get("errors") or [] if isinstance(answer, dict) else [])
    ]
