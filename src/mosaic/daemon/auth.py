"""Who may talk to the daemon: every request of every kind passes `Guard` before anything else looks at it.

Three questions, in this order. Was it meant for us (Host; against DNS rebinding)? Does it come from our own pages or
from no page at all (Origin; against other sites in the same browser)? Does it carry the token (as a bearer, or as the
cookie that a one-time code is exchanged for)?
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

LOGIN_PATH = "/login"
CODE_LIFE_S = 300.0
HOSTS = frozenset({"127.0.0.1", "localhost"})


def load_token(path: Path) -> str:
    """The token of this home, made on first use; readable by its owner only."""
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        token = ""
    if token and not path.stat().st_mode & 0o077:
        return token
    # None yet, or one that others could read: a new one, under a file that never was open to others.
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(token + "\n")
    temporary.replace(path)
    return token


class LoginCodes:
    """One-time codes that a browser exchanges for the cookie. Lost with the daemon: one asks for another."""

    def __init__(self) -> None:
        self._good_until: dict[str, float] = {}

    def make(self) -> str:
        now = time.monotonic()
        self._good_until = {code: until for code, until in self._good_until.items() if until > now}
        code = secrets.token_urlsafe(24)
        self._good_until[code] = now + CODE_LIFE_S
        return code

    def use(self, code: str) -> bool:
        # The code is as long as a token and gone after one use: looking it up tells nothing by its time.
        until = self._good_until.pop(code, 0.0)
        return until > time.monotonic()


def cookie_name(token: str) -> str:
    """Browsers send cookies to every port of a host: the daemons of two homes must not overwrite each other's."""
    return f"mosaic_{hashlib.sha256(token.encode()).hexdigest()[:12]}"


class Guard:
    def __init__(self, app: ASGIApp, token: str, codes: LoginCodes) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = cookie_name(token)
        self._codes = codes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
        if problem := _path_problem(scope["path"]):
            await refuse(scope, send, 400, problem)
        elif problem := _host_problem(headers) or _origin_problem(headers):
            await refuse(scope, send, 403, problem)
        elif scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == LOGIN_PATH:
            await self._log_in(scope, headers, send)
        elif self._has_token(headers):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, send, 401, "no valid token: send 'Authorization: Bearer TOKEN', or open `mosaic open`")

    def _has_token(self, headers: dict[str, str]) -> bool:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if kind.lower() == "bearer" else self._cookie_in(headers.get("cookie", ""))
        return hmac.compare_digest(given.encode(), self._token)

    def _cookie_in(self, header: str) -> str:
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return morsel.value if morsel is not None else ""

    async def _log_in(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        code = parse_qs(scope["query_string"].decode("latin-1")).get("code", [""])[0]
        # A browser that is logged in may follow any login link, also one that it followed before.
        if not self._codes.use(code) and not self._has_token(headers):
            await refuse(scope, send, 401, "this login link was used already or is too old: get another")
            return
        cookie = f"{self._cookie}={self._token.decode()}; HttpOnly; SameSite=Strict; Path=/"
        await _answer(send, 303, b"", [(b"location", b"/"), (b"set-cookie", cookie.encode())])


def _path_problem(path: str) -> str | None:
    if "\0" in path or "\\" in path or any(part in (".", "..") for part in path.split("/")):
        return "the path must not hold '.', '..', '\\' or NUL"
    return None


def _host_problem(headers: dict[str, str]) -> str | None:
    given = headers.get("host", "")
    name, colon, port = given.partition(":")
    if name.lower() in HOSTS and (not colon or port.isdecimal()):
        return None
    return f"Host {given!r} is not this daemon: use 127.0.0.1 or localhost"


def _origin_problem(headers: dict[str, str]) -> str | None:
    origin = headers.get("origin")
    if origin is None:
        return None
    parts = urlsplit(origin)
    # The port is the one that the browser sees, which behind a forwarded port is not the one that we listen on.
    if parts.scheme == "http" and parts.netloc.lower() == headers.get("host", "").lower():
        return None
    return f"Origin {origin!r} is foreign: only pages of this daemon may talk to it"


async def refuse(scope: Scope, send: Send, status: int, message: str) -> None:
    body = msgspec.json.encode({"error": message})
    kind = [(b"content-type", b"application/json")]
    if scope["type"] == "websocket":
        if "websocket.http.response" in scope.get("extensions", {}):
            await send({"type": "websocket.http.response.start", "status": status, "headers": kind})
            await send({"type": "websocket.http.response.body", "body": body})
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": message[:120]})
        return
    await _answer(send, status, body, kind)


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
