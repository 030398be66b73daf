"""A file of one run that cannot be read any more harms no other run, and of its own as little as can be."""

from __future__ import annotations

from typing import Any

import pytest

FILES = ("exit.json", "shepherd.json", "launch.json", "run.sqlite")


@pytest.mark.parametrize("rubbish", [b"{", b"\xff\xfe"], ids=["cut off", "no text"])
def test_all_runs_are_found_and_can_be_tried_again(daemon: Any, rubbish: bytes) -> None:
    daemon.start()
    runs = {name: daemon.script("#!/bin/sh\necho '@step 3'\n", name=name) for name in (*FILES, "whole")}
    for run in runs.values():
        daemon.wait_ended(run)
    daemon.stop()
    for name in FILES:
        (daemon.home.run(runs[name]).path / name).write_bytes(rubbish)
    daemon.home.registry.unlink()
    daemon.start()

    ended = {name: daemon.wait_ended(run) for name, run in runs.items()}
    assert {name for name, view in ended.items() if view["state"] != "SUCCEEDED"} == {"exit.json"}
    assert (ended["exit.json"]["state"], ended["exit.json"]["attempt"]) == ("LOST", 1)
    assert "exit.json is damaged, so nobody knows how it ended" in ended["exit.json"]["exit"]["message"]
    assert daemon.api("GET", "/doctor")["findings"] == []

    for name in FILES:
        daemon.api("POST", f"/runs/{name}/retry")
    again = {name: daemon.wait_ended(runs[name]) for name in FILES}
    assert {view["attempt"] for view in again.values()} == {2}
    assert {name for name, view in again.items() if view["state"] != "SUCCEEDED"} == {"run.sqlite"}
    assert "run.sqlite is not a MOSAIC store" in again["run.sqlite"]["exit"]["message"]
