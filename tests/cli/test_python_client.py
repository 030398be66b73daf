"""`from mosaic import Client`, as in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic import Client
from mosaic.client import BadConfig, NoDaemon, NoSuchRun, NotPossible, RunDidNotSucceed, WaitTimeout


@pytest.fixture
def client(daemon_home: Path) -> Client:
    return Client(daemon_home)


def test_train_wait_and_look(client: Client) -> None:
    run = client.train("tabular", name="notebook", algorithm="sarsa", total_timesteps=2000, report_every=100)
    assert run.wait(timeout=60, check=True) is run
    assert repr(run) == "<Run notebook (tabular) SUCCEEDED, step 2,000 of 2,000>"
    curve = run.metrics("epsilon")
    assert len(curve) == 20
    assert curve.steps[-1] == 2000
    assert repr(curve).startswith("Series('epsilon', 20 points, steps 100 to 2,000")
    assert run.metrics("no such metric").steps == []
    assert {info["name"] for info in run.series()} >= {"epsilon", "td_error"}
    rows = list(run.telemetry(kinds=["metric"]))
    assert [row["step"] for row in rows] == list(range(100, 2100, 100))
    assert list(run.telemetry(since=rows[-2]["seq"], kinds=["metric"])) == rows[-1:]
    everything = [row["seq"] for row in run.follow()]
    assert everything == list(range(1, len(everything) + 1))
    assert client.run("notebook").id == run.id
    assert run.folder.is_dir()


def test_errors_have_types(client: Client, tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as bad:
        client.train("tabular", algorithm="sarse", total_timesteps=0)
    assert {error.field for error in bad.value.errors} == {"algorithm", "total_timesteps"}
    assert "did you mean 'sarsa'" in str(bad.value)
    with pytest.raises(BadConfig, match="tabular"):
        client.train("tabluar")
    with pytest.raises(NoSuchRun):
        client.run("nobody")
    with pytest.raises(NoDaemon, match="mosaic up"):
        Client(tmp_path).runs()
    assert "no daemon running" in repr(Client(tmp_path))
    assert "daemon at http://127.0.0.1" in repr(client)


def test_waiting_has_an_end(client: Client) -> None:
    run = client.train("tabular", total_timesteps=10**12)
    with pytest.raises(WaitTimeout):
        run.wait(timeout=0.2)
    run.cancel()
    with pytest.raises(RunDidNotSucceed, match="CANCELLED"):
        run.wait(timeout=60, check=True)
    with pytest.raises(NotPossible):
        run.pause()
    run.remove()
    with pytest.raises(NoSuchRun):
        run.refresh()


def test_runs_come_page_by_page(client: Client, mosaic: Any) -> None:
    made = [mosaic.quick_run(f"paged{number}", tag="paged")["run_id"] for number in range(3)]
    assert [run.id for run in client.runs(tag="paged", limit=2)] == made[:0:-1]
    assert [run.id for run in client.all_runs(tag="paged")] == made[::-1]


def test_workers_describe_themselves(client: Client) -> None:
    names: list[Any] = [worker["name"] for worker in client.workers()]
    assert "tabular" in names
    assert "sarsa" in client.worker("tabular")["algorithms"]
