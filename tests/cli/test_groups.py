"""One config with several seeds: submitted, looked at, waited for and ended as a group."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mosaic.client import BadConfig, NotPossible

SHORT = ("--total-timesteps", "3000", "--report-every", "500")
ENDLESS = ("--total-timesteps", "1e12")


@pytest.fixture
def trio(mosaic: Any, request: pytest.FixtureRequest) -> str:
    """A group of three short runs that have ended."""
    name = f"trio-{request.node.name.replace('[', '-').strip(']')}"[:60]
    mosaic("train", "tabular", *SHORT, "--seeds", "3,1,2", "--name", name, "--wait")
    return name


def test_each_seed_becomes_a_run_and_their_mean_comes_with_an_interval(mosaic: Any) -> None:
    told = mosaic.json("train", "tabular", *SHORT, "--seeds", "3", "--name", "bench", "--wait")
    assert told["group"] == "bench"
    assert [run["name"] for run in told["runs"]] == ["bench-s1", "bench-s2", "bench-s3"]
    assert [run["config"]["seed"] for run in told["runs"]] == [1, 2, 3]
    assert {run["state"] for run in told["runs"]} == {"SUCCEEDED"}
    found = told["results"]["episode_return"]
    assert found["count"] == 3 and found["low"] < found["value"] < found["high"]
    own = [mosaic.client.run(run["name"]).series() for run in told["runs"]]
    last = [info["last_value"] for series in own for info in series if info["name"] == "epsilon"]
    assert told["results"]["epsilon"]["value"] == pytest.approx(sum(last) / 3)


def test_show_and_runs_know_the_group(mosaic: Any, trio: str) -> None:
    mosaic.quick_run(f"between-{trio}")
    mosaic("train", "tabular", *SHORT, "--seeds", "9,", "--name", trio, "--wait")
    text = mosaic("show", trio).stdout
    assert text.startswith(f"group {trio}: 4 runs, 4 succeeded")
    assert "95% INTERVAL" in text and "episode_return" in text and f"{trio}-s9" in text
    assert f"group         {trio}\n" in mosaic("show", f"{trio}-s1").stdout
    members = {run["name"] for run in mosaic.json("runs", "--group", trio)}
    assert members == {f"{trio}-s{seed}" for seed in (1, 2, 3, 9)}
    listed = [line.split()[0] for line in mosaic("runs", "--all").stdout.splitlines()]
    first = listed.index(f"{trio}-s9")
    assert set(listed[first : first + 4]) == members, "the group stands together"
    (shown,) = mosaic.json("show", trio)
    assert shown["results"]["episode_return"]["count"] == 4


def test_a_group_is_ended_and_waited_for_by_its_name(mosaic: Any) -> None:
    mosaic("train", "tabular", *SHORT, "--seeds", "7,", "--name", "long", "--wait")
    mosaic("train", "tabular", *ENDLESS, "--seeds", "2", "--name", "long")
    told = mosaic("cancel", "long", "--wait").stdout
    assert told == "long-s1: cancelled\nlong-s2: cancelled\n", "what has ended is left alone"
    waited = mosaic("wait", "long", code=1)
    assert "long-s7: succeeded" in waited.stdout
    mosaic("wait", "long-s7")
    mosaic("cancel", "long", code=5)
    mosaic("rm", "long", "--yes")
    assert "no such run" in mosaic("show", "long", code=4).stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_watching_a_group_ends_with_its_last_run(mosaic: Any, as_json: bool) -> None:
    name = f"watched-{as_json}"
    flags = ["--json"] if as_json else []
    text = mosaic("train", "tabular", *SHORT, "--seeds", "2", "--name", name, "--watch", *flags).stdout
    if as_json:
        states = [(line["run"]["name"], line["run"]["state"]) for line in map(json.loads, text.splitlines())]
        assert {(f"{name}-s1", "SUCCEEDED"), (f"{name}-s2", "SUCCEEDED")} <= set(states)
    else:
        assert f"{name}-s1 SUCCEEDED in " in text and "OVER THE RUNS" in text


@pytest.mark.parametrize(
    ("seeds", "code", "words"),
    [
        ("many", 2, "such as 1,2,3"),
        ("0", 2, "how many (1 to 100)"),
        ("1,2,1", 2, "different ones"),
        ("5,-1", 2, "field 'seed': got -1"),
    ],
)
def test_seeds_that_cannot_be_used_start_nothing(mosaic: Any, seeds: str, code: int, words: str) -> None:
    name = f"bad-{seeds}"
    assert words in mosaic("train", "tabular", *SHORT, "--seeds", seeds, "--name", name, code=code).stderr
    assert mosaic.json("runs", "--group", name) == []


def test_a_seed_is_in_a_group_once(mosaic: Any, trio: str) -> None:
    error = mosaic("train", "tabular", *SHORT, "--seeds", "4,2", "--name", trio, code=5).stderr
    assert "has a run with seed 2 already" in error
    assert len(mosaic.client.group(trio).runs) == 3


def test_the_client_does_the_same(mosaic: Any) -> None:
    client = mosaic.client
    group = client.benchmark("tabular", [4, 5], total_timesteps=3000, report_every=500)
    assert group.wait(90, check=True).succeeded
    assert group.name.startswith("tabular-") and client.group(group.name).ended
    assert group.results()["episode_return"].count == 2
    with pytest.raises(BadConfig, match="has no seed"):
        client.submit_seeds({"worker": "script", "config": {"file": "/bin/true"}}, 2)
    with pytest.raises(NotPossible, match="seed 5 already"):
        client.benchmark("tabular", [5], name=group.name, total_timesteps=3000)
