"""What a worker says of itself: asked in its own environment, kept until its source changes, errors of one line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic.envs import DescribeFailed, InstalledWorker, WorkerEnvs, WorkerMissing
from mosaic.envs.describe import describe
from mosaic.paths import Home

MakeWorker = Callable[..., Path]


@pytest.fixture
def worker(envs: WorkerEnvs, make_worker: MakeWorker) -> InstalledWorker:
    return envs.install(str(make_worker("tiny")), report=lambda line: None)


@pytest.fixture(scope="module")
def odd_worker(tmp_path_factory: pytest.TempPathFactory, make_worker_in: MakeWorker) -> InstalledWorker:
    """One whose program the tests write anew."""
    place = tmp_path_factory.mktemp("odd")
    envs = WorkerEnvs(Home(place / "home"), place)
    return envs.install(str(make_worker_in(place / "source", "tiny")), report=lambda line: None)


def is_read(fifo: Path) -> bool:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def cli_of(worker: InstalledWorker) -> Path:
    return Path(worker.source, worker.module, "cli.py")


def test_kept_until_the_source_changes_or_it_is_installed_anew(envs: WorkerEnvs, worker: InstalledWorker) -> None:
    note = worker.folder / "asked"
    first = envs.describe("tiny")
    assert (first["contract"], first["name"], first["title"]) == (1, "tiny", "Tiny")
    assert envs.describe("tiny") == first
    assert len(note.read_text()) == 1

    cli_of(worker).write_text(cli_of(worker).read_text().replace("Tiny", "Changed"))
    assert envs.describe("tiny")["title"] == "Changed"
    assert len(note.read_text()) == 2

    # Another file of the package, with an older time than the newest.
    extra = cli_of(worker).with_name("extra.py")
    extra.touch()
    os.utime(extra, (1, 1))
    envs.describe("tiny")
    assert len(note.read_text()) == 3

    worker.description_file.write_text("{")  # damaged
    assert envs.describe("tiny")["title"] == "Changed"
    assert len(note.read_text()) == 4

    envs.remove("tiny")
    envs.install(worker.source, report=lambda line: None)
    envs.describe("tiny")
    assert len(note.read_text()) == 1  # the note went with the old environment


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "import sys; print('noise', file=sys.stderr); sys.exit('no module named torch')",
            "worker 'tiny' could not describe itself (exit code 1); its last words: no module named torch",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "worker 'tiny' could not describe itself (SIGKILL); its last words: nothing",
        ),
        ("print('hello')", "worker 'tiny' answered --describe by 'hello' on stdout instead of one JSON object"),
        ("print('[1]')", "answered --describe by '[1]' on stdout"),
        ("pass", "answered --describe by 'nothing' on stdout"),
        ('print(\'{"name": "huge"}\')', "worker 'tiny' calls itself 'huge'"),
        ('print(\'{"name": "tiny", "contract": 2}\')', "speaks version 2 of the contract, allowed: 1"),
        (
            'print(\'{"name": "tiny", "contract": 1, "title": "T", "version": "1", "fields": {}, "algorithms": []}\')',
            "describes itself without a usable capabilities, config_schema, algorithms; see `mosaic worker check tiny`",
        ),
    ],
)
def test_errors_are_one_line(odd_worker: InstalledWorker, program: str, told: str) -> None:
    worker = odd_worker
    cli_of(worker).write_text(program)
    with pytest.raises(DescribeFailed) as failure:
        describe(worker)
    assert told in str(failure.value)
    assert "\n" not in str(failure.value)
    assert not worker.description_file.exists()


def test_one_that_hangs_is_ended_with_its_children(odd_worker: InstalledWorker, tmp_path: Path) -> None:
    worker = odd_worker
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    # A grandchild that holds our pipes and the FIFO open for as long as it lives.
    cli_of(worker).write_text(
        f"import subprocess; subprocess.run(['sh', '-c', 'exec 3<>{fifo}; echo up >&3; sleep 600'])"
    )
    reader = os.open(fifo, os.O_RDWR)
    try:
        with pytest.raises(DescribeFailed, match=r"did not describe itself within 3 s"):
            describe(worker, timeout=3.0)
    finally:
        os.close(reader)
    deadline = time.monotonic() + 30
    while is_read(fifo):
        assert time.monotonic() < deadline, "the grandchild lives on"
        time.sleep(0.01)


def test_one_that_is_not_installed(envs: WorkerEnvs) -> None:
    with pytest.raises(WorkerMissing, match="there is no worker 'tiny'; known: none"):
        envs.describe("tiny")
