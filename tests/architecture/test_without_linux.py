"""What needs no Linux kernel works without one, the rest says so in one line: seen from a Python that plays a Mac's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.store import RunWriter
from mosaic.worker.messages import Metric

# Taken away before anything of MOSAIC is imported: what the standard library has on Linux alone.
MAC = """
import ctypes, fcntl, os, resource, select, signal, sys, sysconfig
sysconfig.get_config_vars()  # it looks for a file that is named after the platform
linux = {
    os: ("pidfd_open", "pipe2", "posix_fallocate", "posix_fadvise", "sched_getaffinity", "memfd_create", "eventfd"),
    signal: ("pidfd_send_signal",), select: ("epoll",), resource: ("prlimit",), fcntl: ("F_SETPIPE_SZ",),
}
for module, names in linux.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"
"""
EVERYTHING = """
import importlib, pkgutil, mosaic
for found in pkgutil.walk_packages(mosaic.__path__, "mosaic."):
    importlib.import_module(found.name)
"""
COMMAND = "from mosaic.cli import main; main(sys.argv[1:])"


def on_a_mac(program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"MOSAIC_HOME": str(home)}
    argv = [sys.executable, "-P", "-c", MAC + program, *arguments]
    return subprocess.run(argv, env=environment, cwd=home, capture_output=True, text=True, timeout=100)


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    done = on_a_mac(EVERYTHING, home=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command", ["up", "runs", "status", "doctor", "train tabular", "quickstart", "cancel some", "watch some"]
)
def test_what_needs_a_kernel_says_so_and_does_nothing(command: str, tmp_path: Path) -> None:
    done = on_a_mac(COMMAND, *command.split(), home=tmp_path)
    assert done.returncode in (1, 3)
    assert "runs need a Linux kernel, this is darwin" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "envs").exists(), "no worker was installed in vain"


def test_copied_runs_can_be_read_and_workers_listed(tmp_path: Path) -> None:
    folder = tmp_path / "trainer/runs/01JD0000000000000000000000"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs/worker.log").write_text("hello\n")
    (folder / "job.json").write_text(json.dumps({"name": "copied", "metadata": {"worker": {"name": "tabular"}}}))
    writer = RunWriter(folder / "run.sqlite")
    writer.begin_attempt(1, started=1.0)
    writer.append([Metric(step=1, values={"loss": 0.5})], 1.0)
    writer.commit()
    writer.close()
    exported = on_a_mac(COMMAND, "export", "copied", "--format", "csv", "--out", "out", home=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert "loss" in (tmp_path / "out/metrics.csv").read_text()
    assert on_a_mac(COMMAND, "logs", "copied", home=tmp_path).stdout == "hello\n"
    assert "tabular" in on_a_mac(COMMAND, "worker", "list", home=tmp_path).stdout
