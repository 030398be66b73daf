"""Following a run over the WebSocket: from any seq, across restarts of the daemon, to the last row."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect


def socket(daemon: Any, path: str) -> ClientConnection:
    url = json.loads(daemon.home.daemon_info.read_bytes())["url"].replace("http", "ws")
    return connect(f"{url}/api/v1{path}", additional_headers=daemon.bearer, compression=None, proxy=None)


def messages(connection: ClientConnection) -> list[dict[str, Any]]:
    """All until it closes."""
    found = []
    try:
        while True:
            found.append(json.loads(connection.recv(timeout=60)))
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        assert closed.rcvd.code in (1000, 1012)
    return found


def rows_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for message in found for row in message.get("rows", ())]


def test_from_any_seq_to_the_last_row(shared_daemon: Any) -> None:
    run = shared_daemon.counter({"total_timesteps": 50})
    with socket(shared_daemon, f"/runs/{run}/follow") as connection:
        live = messages(connection)
    states = [message["run"]["state"] for message in live if "run" in message]
    assert states[0] in ("QUEUED", "STARTING")
    assert states[-1] == "SUCCEEDED"
    assert list(live[-1]) == ["run"]
    rows = rows_of(live)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["step"] for row in rows if row["type"] == "metric"] == list(range(1, 51))
    # Afterwards too, from anywhere, of some kinds.
    for since in (0, 7, len(rows) - 1, len(rows), 10**9):
        with socket(shared_daemon, f"/runs/{run}/follow?since={since}") as connection:
            assert rows_of(messages(connection)) == rows[since:]
    with socket(shared_daemon, f"/runs/{run}/follow?kinds=run_started,ended") as connection:
        assert [row["type"] for row in rows_of(messages(connection))] == ["run_started", "ended"]


def test_across_a_killed_daemon_nothing_is_missed_or_seen_twice(daemon: Any, tmp_path: Path) -> None:
    daemon.install_counter()
    daemon.start()
    run = daemon.counter({"total_timesteps": 120, "pause_s": 0.05})
    handle = daemon.client.run(run)
    seen: list[dict[str, Any]] = []
    half = threading.Event()

    def follow() -> None:
        for row in handle.follow():
            seen.append(row)
            if len(seen) == 20:
                half.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    assert half.wait(60)
    daemon.kill()
    daemon.start()
    follower.join(60)
    assert not follower.is_alive()
    assert [row["seq"] for row in seen] == list(range(1, len(seen) + 1))
    assert [row["step"] for row in seen if row["type"] == "metric"] == list(range(1, 121))


def test_a_daemon_that_stops_sends_followers_away_and_ends(daemon: Any) -> None:
    daemon.start()
    run = daemon.script("#!/bin/sh\nexec sleep 300\n")
    daemon.wait_state(run, "RUNNING")
    with socket(daemon, f"/runs/{run}/follow") as one, socket(daemon, "/events") as all_runs:
        assert json.loads(one.recv(timeout=30))
        daemon.stop()
        messages(one)
        messages(all_runs)


def test_events_tell_of_every_run(shared_daemon: Any) -> None:
    with socket(shared_daemon, "/events") as connection:
        run = shared_daemon.script("#!/bin/sh\nexit 0\n")
        states: list[str] = []
        while "SUCCEEDED" not in states:
            message = json.loads(connection.recv(timeout=60))
            if "run" in message and message["run"]["run_id"] == run:
                states.append(message["run"]["state"])
        assert states[0] == "QUEUED"
        shared_daemon.api("DELETE", f"/runs/{run}")
        while json.loads(connection.recv(timeout=60)) != {"removed": run}:
            pass
