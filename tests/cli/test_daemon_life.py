"""`up`, `down`, commands without a daemon, and watching across its death."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from typing import Any

import pytest

from mosaic.paths import Home


@pytest.mark.parametrize("arguments", [("runs",), ("watch", "x"), ("pause", "x"), ("down",)])
def test_without_a_daemon_commands_say_how_to_start_one(no_daemon: Any, arguments: tuple[str, ...]) -> None:
    done = no_daemon(*arguments, code=3)
    assert done.stderr == "mosaic: no daemon is running: start it with `mosaic up`\n"
    assert done.stdout == ""


def test_what_a_dead_daemon_left_behind_is_no_daemon(no_daemon: Any, mosaic: Any) -> None:
    """Nor is another home's daemon that listens by now where the dead one did: it is not shown this home's token."""
    home = Home(no_daemon.home)
    home.trainer.mkdir(parents=True)
    home.daemon_lock.touch()
    home.token.write_text("x")
    home.daemon_info.write_bytes(Home(mosaic.home).daemon_info.read_bytes())
    no_daemon("status", code=3)
    started = no_daemon.json("up")
    no_daemon("down")
    assert started["url"] != json.loads(Home(mosaic.home).daemon_info.read_text())["url"]


def test_a_home_that_cannot_be_made_is_told_in_one_line(no_daemon: Any) -> None:
    no_daemon.home.write_text("not a folder")
    done = no_daemon("up", code=1)
    assert done.stderr == f"mosaic: {no_daemon.home}/trainer/daemon.json: Not a directory\n"


def test_up_is_said_twice_and_down_leaves_runs_alone(own_home: Any, wait_for: Any) -> None:
    mosaic = own_home()
    first = mosaic.json("up")
    assert first["how"] == "started"
    assert first["login_url"].startswith(first["url"] + "/login?code=")
    second = mosaic.json("up")
    assert (second["how"], second["pid"]) == ("running", first["pid"])
    mosaic.endless_run("survivor")
    run = mosaic.client.run("survivor")
    before = run.step or 0
    down = mosaic("down")
    assert "1 run still under way" in down.stdout
    mosaic("runs", code=3)
    assert "started the daemon" in mosaic("train", "tabular", "--total-timesteps", "10").stderr
    wait_for(lambda: run.refresh().state == "RUNNING" and (run.step or 0) > before)
    assert mosaic.json("down", "--cancel-runs")["cancelled"] >= 1
    mosaic.json("up")
    assert mosaic.client.run("survivor").state == "CANCELLED"


def test_a_daemon_of_other_code_hands_over(own_home: Any) -> None:
    mosaic = own_home()
    old = mosaic.json("up")
    info = json.loads(Home(mosaic.home).daemon_info.read_text())
    Home(mosaic.home).daemon_info.write_text(json.dumps({**info, "code": "0123456789abcdef"}))
    new = mosaic.json("up")
    assert new["how"] == "replaced"
    assert new["pid"] != old["pid"]


def test_without_a_linux_kernel_it_says_what_works(no_daemon: Any) -> None:
    folder = no_daemon.cwd / "elsewhere"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys; sys.platform = 'darwin'")
    elsewhere = dataclasses.replace(no_daemon, env={"PYTHONPATH": str(folder)})
    for arguments, code in ((("up",), 1), (("doctor",), 1), (("runs",), 3)):
        done = elsewhere(*arguments, code=code)
        assert "runs need a Linux kernel, this is darwin; what works without: mosaic worker" in done.stderr
        assert done.stderr.count("\n") == 1
    assert "tabular" in elsewhere("worker", "list").stdout


def test_watching_goes_on_when_the_daemon_is_killed_and_comes_back(own_home: Any) -> None:
    mosaic = own_home()
    pid = mosaic.json("up")["pid"]
    mosaic("train", "tabular", "--total-timesteps", "30000", "--report-every", "100", "--name", "long")
    watching = mosaic.start("watch", "long", "--json", stdout=-1)
    lines = [json.loads(watching.stdout.readline()) for _ in range(5)]
    os.kill(pid, signal.SIGKILL)
    mosaic("up")
    lines += [json.loads(line) for line in watching.stdout]
    assert watching.wait() == 0
    seqs = [line["seq"] for line in lines if "seq" in line]
    assert seqs == list(range(1, len(seqs) + 1))
    assert lines[-1]["run"]["state"] == "SUCCEEDED"


def test_a_daemon_that_cannot_start_says_why(no_daemon: Any) -> None:
    home = Home(no_daemon.home)
    home.trainer.mkdir(parents=True)
    home.registry.mkdir()
    done = no_daemon("up", code=1)
    assert "the daemon did not start" in done.stderr
    assert done.stderr.count("\n") == 1
