"""However a run ends, under the real shepherd: the end is told truthfully, nothing is left, and it can be resumed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from conftest import SMALL, merged
from mosaic.fastlane import discover
from mosaic.paths import RunFolder
from mosaic.shepherd import control
from mosaic.shepherd.exit_record import ExitRecord
from mosaic.shepherd.launch import Launch, shared_memory_folder, shepherd_command
from mosaic.store import RunReader
from mosaic.worker import checkpoints

pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 240.0


class LiveRun:
    """A run of this worker under a shepherd of its own."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.id = f"raytest-{uuid.uuid4().hex[:12]}"
        self.folder = RunFolder(folder / self.id)
        self.path = folder / self.id
        self.path.mkdir(parents=True)
        (self.path / "logs").mkdir()
        # Its own, to see what it leaves there; other people's Rays leave things in the machine's.
        self.home, self.temporary = folder / "home", folder / "t"
        self.home.mkdir()
        self.temporary.mkdir()
        job = {"run_id": self.id, "metadata": {"worker": {"config": {**config, "run_id": self.id}}}}
        (self.path / "job.json").write_bytes(msgspec.json.encode(job))
        self.shepherd: subprocess.Popen[bytes] | None = None

    def start(self, attempt: int = 1, resume_from: Path | None = None) -> None:
        launch = Launch(
            run_id=self.id,
            attempt=attempt,
            argv=[sys.executable, "-m", "ray_worker.cli", "--config", str(self.path / "job.json")],
            resume_from=str(resume_from.relative_to(self.path)) if resume_from else None,
            resume_step=checkpoints.read_card(resume_from).step if resume_from else None,
            worker_pauses=True,
            env={"OMP_NUM_THREADS": "1", "HOME": str(self.home), "TMPDIR": str(self.temporary)},
        )
        (self.path / "launch.json").write_bytes(msgspec.json.encode(launch))
        with (self.path / "logs" / "shepherd.log").open("ab") as log:
            self.shepherd = subprocess.Popen(
                shepherd_command(self.folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def processes(self) -> list[psutil.Process]:
        """All that belongs to the run, wherever it has gone: told by the environment that it was started with."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("MOSAIC_RUN_ID") == self.id and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    @property
    def worker(self) -> psutil.Process:
        return psutil.Process(msgspec.json.decode((self.path / "shepherd.json").read_bytes())["worker_pid"])

    def told(self, kind: str) -> list[dict[str, Any]]:
        if not (self.path / "run.sqlite").exists():
            return []
        with RunReader(self.path / "run.sqlite") as reader:
            return reader.read(kinds=[kind], limit=10_000)

    def wait_until(self, what: str, holds: Callable[[], Any], within_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline:
                log = self.path / "logs" / "worker.log"
                tail = log.read_text()[-2000:] if log.exists() else "no log"
                raise AssertionError(f"not within {within_s:.0f} s: {what}\n{tail}")
            time.sleep(0.1)

    def ended(self) -> ExitRecord:
        self.wait_until("the end", (self.path / "exit.json").exists)
        return msgspec.json.decode((self.path / "exit.json").read_bytes(), type=ExitRecord)

    def check_nothing_left(self) -> None:
        self.wait_until("no process is left", lambda: not self.processes(), within_s=10)
        self.wait_until("no shared memory is left", lambda: not shared_memory_folder(self.id).exists(), within_s=10)
        assert not [*self.home.glob("*ray*"), *self.temporary.iterdir()]

    def kill_all(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if self.shepherd is not None:
            self.shepherd.kill()
            self.shepherd.wait()
        # What a daemon would clear away after a killed shepherd.
        shutil.rmtree(shared_memory_folder(self.id), ignore_errors=True)


ENDLESS = {"training": {"total_timesteps": 10**9}, "resources": {"num_workers": 1}, "checkpoint": {"frequency": 400}}
POPULATION = {
    "resources": {"num_workers": 0},
    "population": {"size": 2, "interval": 800, "mutations": {"lr": [0.001, 0.0001]}, "replaced": 0.5},
}


@pytest.fixture
def changes() -> dict[str, Any]:
    return {}


@pytest.fixture
def live_run(tmp_path: Path, changes: dict[str, Any]) -> Iterator[LiveRun]:
    run = LiveRun(tmp_path, merged(merged(SMALL, ENDLESS), changes))
    try:
        yield run
    finally:
        run.kill_all()


def test_a_cancelled_run_saves_and_is_resumed_and_a_killed_one_leaves_nothing(live_run: LiveRun) -> None:
    live_run.start()
    live_run.wait_until("the first results", lambda: live_run.told("metric"))
    assert len(live_run.processes()) > 3, "there is a Ray to leave behind"
    os.killpg(os.getpgid(live_run.worker.pid), signal.SIGTERM)
    record = live_run.ended()
    assert record.exit_code == 0
    live_run.check_nothing_left()
    saved = live_run.told("checkpoint")[-1]
    checkpoint = checkpoints.latest(live_run.path)
    assert checkpoint is not None
    assert checkpoints.verify(checkpoint).step == saved["step"]

    (live_run.path / "exit.json").unlink()
    live_run.start(attempt=2, resume_from=checkpoint)
    live_run.wait_until(
        "results past the checkpoint", lambda: any(row["step"] > saved["step"] for row in live_run.told("metric"))
    )
    live_run.worker.kill()
    record = live_run.ended()
    assert (record.outcome, record.signal) == ("failed", "SIGKILL")
    live_run.check_nothing_left()


def test_a_run_goes_on_when_a_runner_is_killed_and_ends_when_the_shepherd_is(live_run: LiveRun) -> None:
    live_run.start()
    live_run.wait_until("the first results", lambda: live_run.told("metric"))
    (runner,) = [process for process in live_run.processes() if "ray::SingleRunner" in " ".join(process.cmdline())]
    runner.kill()
    step = live_run.told("metric")[-1]["step"]
    live_run.wait_until("results after the runner's end", lambda: live_run.told("metric")[-1]["step"] > step + 400)
    assert live_run.shepherd is not None
    live_run.shepherd.kill()
    live_run.shepherd.wait()
    live_run.wait_until("the worker has noticed and ended", lambda: not live_run.processes())
    assert checkpoints.latest(live_run.path) is not None


@pytest.mark.slow
def test_ctrl_c_ends_it_as_a_cancel_does(live_run: LiveRun) -> None:
    live_run.start()
    live_run.wait_until("the first results", lambda: live_run.told("metric"))
    os.killpg(os.getpgid(live_run.worker.pid), signal.SIGINT)
    record = live_run.ended()
    assert record.exit_code == 0
    live_run.check_nothing_left()
    assert checkpoints.latest(live_run.path) is not None


@pytest.mark.slow
@pytest.mark.parametrize("changes", [POPULATION])
def test_a_population_outlives_a_member_is_saved_when_cancelled_and_leaves_nothing(live_run: LiveRun) -> None:
    live_run.start()
    live_run.wait_until("the first exchange", lambda: any(row.get("parent") for row in live_run.told("child_started")))
    members = [process for process in live_run.processes() if "PopulationTrial" in " ".join(process.cmdline())]
    assert members
    begun = len(live_run.told("child_started"))
    members[0].kill()
    live_run.wait_until("it is started again", lambda: len(live_run.told("child_started")) > begun)
    step = live_run.told("metric")[-1]["step"]
    live_run.wait_until("all members go on", lambda: live_run.told("metric")[-1]["step"] > step + 800)
    os.killpg(os.getpgid(live_run.worker.pid), signal.SIGTERM)
    assert live_run.ended().exit_code == 0
    live_run.check_nothing_left()
    checkpoint = checkpoints.latest(live_run.path)
    assert checkpoint is not None
    saved = checkpoints.verify(checkpoint).step
    assert {path.name for path in (live_run.path / "children").iterdir()} == {"trial-0", "trial-1"}

    (live_run.path / "exit.json").unlink()
    live_run.start(attempt=2, resume_from=checkpoint)
    live_run.wait_until("results past it", lambda: any(row["step"] > saved for row in live_run.told("metric")))
    live_run.worker.kill()
    assert live_run.ended().signal == "SIGKILL"
    live_run.check_nothing_left()


@pytest.mark.slow
def test_it_is_watched_paused_and_saved_on_request(live_run: LiveRun) -> None:
    live_run.start()
    live_run.wait_until("the first results", lambda: live_run.told("metric"))
    live_run.wait_until("a frame from the runner's process", lambda: discover(shared_memory_folder(live_run.id)))
    control.send(live_run.folder, "pause")
    live_run.wait_until(
        "a heartbeat that says paused", lambda: any(row.get("state") == "paused" for row in live_run.told("heartbeat"))
    )
    saved = len(live_run.told("checkpoint"))
    control.send(live_run.folder, "resume")
    control.send(live_run.folder, "checkpoint")
    live_run.wait_until("the checkpoint", lambda: len(live_run.told("checkpoint")) > saved)
    control.send(live_run.folder, "cancel")
    assert live_run.ended().outcome == "cancelled"
    live_run.check_nothing_left()
