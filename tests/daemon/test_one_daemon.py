"""One daemon for each home; handing over to the next."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.02)


def test_the_second_says_who_has_the_home_and_ends(daemon: Any) -> None:
    daemon.start()
    second = daemon.spawn()
    assert second.wait(30) == 1
    last = daemon.log.read_text().splitlines()[-1]
    assert daemon.process is not None
    url = daemon.api("GET", "/status")["url"]
    assert f"another daemon has this home ({daemon.home.root})" in last
    assert f"pid {daemon.process.pid}, {url}, version 0.1.0" in last
    # The first one has not noticed.
    assert daemon.api("GET", "/status")["pid"] == daemon.process.pid


def test_of_many_at_once_one_stays(daemon: Any) -> None:
    started = [daemon.spawn() for _ in range(3)]
    wait_for(lambda: sum(process.poll() is not None for process in started) == 2, "two of three to end")
    assert sorted(process.poll() or 0 for process in started) == [0, 1, 1]
    daemon.process = next(process for process in started if process.poll() is None)
    wait_for(daemon.client.transport.answers, "the one that is left")
    assert daemon.api("GET", "/status")["pid"] == daemon.process.pid


def test_handing_over_while_a_run_goes_on(daemon: Any) -> None:
    daemon.start()
    run = daemon.script("#!/bin/sh\nexec sleep 300\n")
    daemon.wait_state(run, "RUNNING")
    shepherd = daemon.shepherd_pid(run)
    old = daemon.process
    daemon.start("--takeover")
    assert old is not None
    assert old.wait(30) == 0
    assert daemon.view(run)["state"] == "RUNNING"
    assert daemon.shepherd_pid(run) == shepherd
    daemon.api("POST", f"/runs/{run}/cancel")
    assert daemon.wait_ended(run)["state"] == "CANCELLED"


def test_a_daemon_told_to_stop_leaves_nothing_open(daemon: Any) -> None:
    for how in ("api", "signal"):
        daemon.start()
        url = urlsplit(daemon.api("GET", "/status")["url"])
        assert daemon.process is not None
        if how == "api":
            daemon.api("POST", "/daemon/shutdown")
        else:
            daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(30) == 0
        daemon.process = None
        assert not daemon.home.daemon_info.exists()
        with socket.socket() as probe:
            assert probe.connect_ex((url.hostname, url.port)) != 0


def test_a_setting_that_makes_no_sense_is_told_in_one_line(daemon: Any) -> None:
    daemon.environment["MOSAIC_CPUS"] = "many"
    assert daemon.spawn().wait(30) == 1
    assert daemon.log.read_text().splitlines() == [
        "mosaic daemon: MOSAIC_CPUS: got 'many', allowed: a whole number from 1 up"
    ]
