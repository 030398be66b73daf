"""Who is let in: on every route and method there is."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from mosaic.daemon.auth import cookie_name

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SOCKETS = ("/api/v1/events", "/api/v1/runs/latest/follow", "/api/v1/nothing")


def routes(daemon: Any) -> Iterator[tuple[str, str]]:
    """Every path of the API with every method, the ones that it has and the ones that it has not."""
    described = daemon.api("GET", "/openapi.json")
    paths = {re.sub(r"\{\w+\}", "latest", path) for path in described["paths"]}
    assert len(paths) > 20
    for path in sorted({*paths, "/", "/login", "/api/v1/openapi.json", "/docs", "/static/app.js"}):
        for method in METHODS:
            yield method, path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Cookie": "{cookie}=wrong; other={token}"}, 401),
        ({"Authorization": "Bearer {token}", "Host": "evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Host": "127.0.0.1.evil.example:{port}"}, 403),
        ({"Authorization": "Bearer {token}", "Host": "localhost:80@evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Host": ""}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "null"}, 403),
        ({"Cookie": "{cookie}={token}", "Origin": "http://127.0.0.1:1"}, 403),
        ({"Cookie": "{cookie}={token}", "Origin": "https://127.0.0.1:{port}"}, 403),
    ],
)
def test_every_route_and_method_is_refused(shared_daemon: Any, headers: dict[str, str], status: int) -> None:
    token = shared_daemon.home.token.read_text().strip()
    port = urlsplit(json.loads(shared_daemon.home.daemon_info.read_bytes())["url"]).port
    given = {name: value.format(token=token, port=port, cookie=cookie_name(token)) for name, value in headers.items()}
    for method, path in routes(shared_daemon):
        got, answer, _ = shared_daemon.request(method, path, None, given)
        assert (method, path, got) == (method, path, status)
        assert method == "HEAD" or (set(answer) == {"error"} and "\n" not in answer["error"])
    for path in SOCKETS:
        url = f"ws://127.0.0.1:{port}{path}"
        extra = {name: value for name, value in given.items() if name not in ("Host", "Origin")}
        host = given.get("Host")
        if host is not None:
            continue  # the client sets its own; the guard is the same for all kinds of requests
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=extra, origin=given.get("Origin"), compression=None, proxy=None)  # type: ignore[arg-type]
        assert refused.value.response.status_code == status


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs/../status",
        "/api/v1/runs/latest/files/../../registry.sqlite",
        "/api/v1/runs/latest/files/%2e%2e/%2e%2e/token",
        "/api/v1/runs/latest/files/..%2f..%2ftoken",
        "/api/v1/runs/latest/files/..%5c..%5ctoken",
        "/api/v1/workers/..",
        "/api/v1/workers/%2e%2e/install",
        "/../../etc/passwd",
        "/api/v1/runs/%00",
    ],
)
def test_dots_in_a_path_are_refused(shared_daemon: Any, path: str) -> None:
    for method in METHODS:
        status, answer, _ = shared_daemon.request(method, path, None, shared_daemon.bearer)
        assert (method, status) == (method, 400)
        assert method == "HEAD" or "'..'" in answer["error"]


def test_files_are_served_from_the_run_folder_only(shared_daemon: Any) -> None:
    run = shared_daemon.script("#!/bin/sh\necho hello > out.txt; echo '<script>' > page.html\n", name="files")
    shared_daemon.wait_ended(run)
    folder = shared_daemon.home.run(run).path
    home = shared_daemon.home
    (folder / "inside").mkdir()
    (folder / "inside" / "note.txt").write_text("in")
    (folder / "link-in").symlink_to(folder / "inside" / "note.txt")
    (folder / "link-out").symlink_to(home.token)
    (folder / "link-up").symlink_to(home.trainer)
    (folder / "page.html").write_text("<script>")

    def get(path: str) -> tuple[int, Any, Any]:
        answer: tuple[int, Any, Any] = shared_daemon.request(
            "GET", f"/api/v1/runs/{run}/files/{path}", None, shared_daemon.bearer
        )
        return answer

    assert get("inside/note.txt")[:2] == (200, b"in")
    assert get("link-in")[0] == 200
    for path in (
        "link-out",
        "link-up/token",
        "//etc/passwd",
        f"/{home.token}",
        "inside",
        "missing",
        "%252e%252e/token",
    ):
        assert get(path)[0] == 404, path
    status, _, headers = get("page.html")
    assert status == 200
    assert headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    listed = {entry["path"] for entry in shared_daemon.api("GET", f"/runs/{run}/files")["files"]}
    assert {"job.json", "exit.json", "inside/note.txt"} <= listed
    assert not {"link-out", "link-up/token"} & listed


def test_a_launch_code_logs_a_browser_in_once(shared_daemon: Any) -> None:
    url = shared_daemon.api("POST", "/login-codes")["url"]
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}"
    status, _, headers = shared_daemon.request("GET", path)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    own_page = {"Cookie": cookie.split(";")[0], "Origin": f"http://{parts.netloc}"}
    assert shared_daemon.request("GET", "/api/v1/status", None, own_page)[0] == 200
    assert shared_daemon.request("GET", "/", None, own_page)[0] == 200
    assert shared_daemon.request("GET", path)[0] == 401
    assert shared_daemon.request("GET", "/login?code=")[0] == 401
    # A browser that is logged in already, as when `mosaic open` is typed again.
    again = shared_daemon.api("POST", "/login-codes")["url"].partition("/login")[2]
    status, _, headers = shared_daemon.request("GET", f"/login{again}", None, own_page)
    assert (status, headers["Location"]) == (303, "/")
    assert shared_daemon.request("GET", f"/login{again}")[0] == 401


def test_the_cookies_of_two_homes_live_side_by_side() -> None:
    assert cookie_name("one") != cookie_name("other")
    assert "one" not in cookie_name("one")


def test_a_forwarded_port_is_at_home(shared_daemon: Any) -> None:
    headers = {**shared_daemon.bearer, "Host": "localhost:9000", "Origin": "http://localhost:9000"}
    assert shared_daemon.request("GET", "/api/v1/status", None, headers)[0] == 200


def test_the_token_is_for_its_owner_only(daemon: Any) -> None:
    daemon.home.trainer.mkdir(parents=True)
    daemon.home.token.write_text("open-to-all\n")
    daemon.home.token.chmod(0o644)
    daemon.start()
    assert stat.S_IMODE(daemon.home.token.stat().st_mode) == 0o600
    kept = daemon.home.token.read_text()
    assert "open-to-all" not in kept
    daemon.stop()
    daemon.start()
    assert daemon.home.token.read_text() == kept


def test_errors_are_one_line_of_json(shared_daemon: Any) -> None:
    for method, path, body, status in (
        ("GET", "/nothing", None, 404),
        ("PUT", "/status", None, 405),
        ("GET", "/runs/nobody", None, 404),
        ("GET", "/runs?limit=none", None, 422),
        ("GET", "/runs?state=HAPPY", None, 422),
        ("POST", "/runs", None, 422),
        ("POST", "/runs", [1], 422),
        ("POST", "/runs", {"worker": "script", "config": {"file": "relative.sh"}}, 422),
        ("POST", "/runs", {"worker": "script", "config": {"file": "/nowhere/at/all.sh"}}, 422),
        ("POST", "/runs", {"worker": "script", "configs": {}, "priority": "high"}, 422),
        ("GET", "/workers/nobody", None, 404),
        ("POST", "/workers/counter/check", {"total_timesteps": 0}, 422),
    ):
        got, answer, _ = shared_daemon.request(method, f"/api/v1{path}", body, shared_daemon.bearer)
        assert (path, got) == (path, status)
        assert answer["error"].strip()
        assert "\n" not in answer["error"]
    assert shared_daemon.api("POST", "/workers/counter/check", {"total_timesteps": 5}) == {"ok": True}


def test_runs_are_closed_to_other_people_on_the_machine(daemon: Any) -> None:
    daemon.start()
    assert stat.S_IMODE(daemon.home.trainer.stat().st_mode) == 0o700
