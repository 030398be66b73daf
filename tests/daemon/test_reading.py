"""Reading a run's folder while, and whatever, its worker writes there."""

from __future__ import annotations

from typing import Any


def test_files_with_names_that_are_no_text_are_listed(shared_daemon: Any) -> None:
    run = shared_daemon.script("#!/bin/sh\ntouch \"$MOSAIC_RUN_DIR/$(printf 'odd\\377name')\"\n")
    shared_daemon.wait_ended(run)
    listed = {found["path"] for found in shared_daemon.api("GET", f"/runs/{run}/files")["files"]}
    assert {"job.json", "odd\ufffdname"} <= listed


def test_a_log_that_is_not_there_yet_is_empty(shared_daemon: Any) -> None:
    run = shared_daemon.script("#!/bin/sh\nexit 0\n")
    shared_daemon.wait_ended(run)
    answer = shared_daemon.api("GET", f"/runs/{run}/logs?file=malformed")
    assert (answer["text"], answer["size"]) == ("", 0)
