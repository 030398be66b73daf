"""Installs that are killed or collide: never half an environment, never two at work on one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic.envs import WorkerEnvs, WorkerMissing

MakeWorker = Callable[..., Path]

# Installs; at the first report that holds the words of the last argument, it says so and goes no further.
INSTALLER = """
import signal, sys
from pathlib import Path
from mosaic.envs import WorkerEnvs
from mosaic.paths import Home
envs = WorkerEnvs(Home(Path(sys.argv[1])), Path(sys.argv[2]))
def report(line):
    print(line, flush=True)
    if sys.argv[4] and sys.argv[4] in line:
        print("here", flush=True)
        signal.pause()
report("starting")
worker = envs.install(sys.argv[3], report=report)
print("done", worker.installed, flush=True)
"""


def start(envs: WorkerEnvs, folder: Path, halt_at: str = "") -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", INSTALLER, str(envs.folder.parent), str(envs.workers), str(folder), halt_at]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)


# "alone" leaves its uv behind, still writing: the next install must wait for that one's end.
@pytest.mark.parametrize(
    ("moment", "whole_group"),
    [("starting", True), ("Resolved", False), ("Building", True), ("Building", False), (" + tiny-worker", False)],
    ids=lambda value: value if isinstance(value, str) else "with its uv" if value else "alone",
)
def test_killed_at_any_moment_and_tried_again(
    envs: WorkerEnvs, make_worker: MakeWorker, moment: str, whole_group: bool
) -> None:
    folder = make_worker("tiny")
    victim = start(envs, folder, halt_at=moment)
    assert victim.stdout
    assert "here\n" in iter(victim.stdout.readline, ""), f"the install never came to {moment!r}"
    (os.killpg if whole_group else os.kill)(victim.pid, signal.SIGKILL)
    victim.wait()
    victim.stdout.close()

    assert envs.installed() == []
    with pytest.raises(WorkerMissing):
        envs.get("tiny")
    worker = envs.install(str(folder), report=lambda line: None)
    assert envs.installed() == [worker]
    assert envs.describe("tiny")["name"] == "tiny"
    assert [path.name for path in envs.folder.iterdir() if path.is_dir()] == ["tiny"]


def test_two_at_once_make_one_environment(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    folder = make_worker("tiny")
    both = [start(envs, folder) for _ in range(2)]
    told = [process.communicate(timeout=100)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("another install of tiny is under way: waiting for it" in text for text in told) == 1
    assert sum("tiny is installed" in text for text in told) == 1
    assert len({text.splitlines()[-1] for text in told}) == 1


def test_a_folder_without_a_whole_mark_is_no_environment(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    worker = envs.install(str(make_worker("tiny")), report=lambda line: None)
    (worker.folder / "worker.json").write_text("{")
    assert envs.installed() == []
    (worker.folder / "worker.json").unlink()
    assert not envs.is_known("tiny")
    assert envs.installed() == []
    again = envs.install(worker.source, report=lambda line: None)
    assert envs.get("tiny") == again


def test_an_environment_whose_python_is_gone_is_no_environment(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    worker = envs.install(str(make_worker("tiny")), report=lambda line: None)
    worker.python.unlink()
    worker.python.symlink_to("/does/not/exist/python3")
    assert not envs.is_known("tiny")
    assert envs.install(worker.source, report=lambda line: None).installed > worker.installed
