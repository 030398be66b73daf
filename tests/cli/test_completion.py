"""Shell completion: commands, runs, workers, and a worker's hyperparameters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mosaic.envs import InstalledWorker


def completed(mosaic: Any, *words: str) -> list[str]:
    """What is offered for the last word."""
    line = " ".join(("mosaic", *words))
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_MOSAIC_COMPLETE": "bash_complete"}
    done = type(mosaic)(mosaic.home, mosaic.cwd, asked)()
    return [text.partition(",")[2] for text in done.stdout.splitlines()]


def test_what_is_completed(mosaic: Any) -> None:
    run_id = mosaic.quick_run("completed")["run_id"]
    assert {"runs", "resume", "retry"} <= set(completed(mosaic, "r"))
    assert {"latest", "completed"} <= set(completed(mosaic, "watch", ""))
    assert run_id in completed(mosaic, "show", run_id[:12])
    assert "tabular" in completed(mosaic, "train", "ta")
    assert completed(mosaic, "train", "tabular", "--algorithm", "sa") == ["sarsa"]
    assert completed(mosaic, "train", "tabular", "--algorithm", "sarsa", "--learn") == ["--learning-rate"]


def test_what_goes_wrong_is_not_written_into_the_line(no_daemon: Any) -> None:
    """A worker that cannot describe itself: told when it is used, and not to somebody who pressed Tab."""
    folder = no_daemon.home / "envs" / "broken"
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to("/bin/false")
    InstalledWorker(
        name="broken", module="broken", distribution="broken", version="1", folder=folder, source="broken",
        editable=False, extras=(), installed=0.0, fingerprint="",
    ).write()  # fmt: skip
    assert "could not describe itself" in no_daemon("train", "broken", code=1).stderr
    asked = {"COMP_WORDS": "mosaic train broken --se", "COMP_CWORD": "3", "_MOSAIC_COMPLETE": "bash_complete"}
    done = type(no_daemon)(no_daemon.home, no_daemon.cwd, asked)(code=None)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_bash_asks_the_command_for_completions(mosaic: Any, tmp_path: Path) -> None:
    script = mosaic("completion", "bash").stdout
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "mosaic"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m mosaic.cli "$@"\n')
    command.chmod(0o755)
    test = f"""{script}
PATH="{folder}:$PATH"
COMP_WORDS=(mosaic qui) COMP_CWORD=1
_mosaic_completion mosaic
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", test], env=mosaic.environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "quickstart"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(mosaic: Any, shell: str) -> None:
    script = mosaic("completion", shell).stdout
    assert "_MOSAIC_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n", "/dev/stdin"], input=script, text=True, check=True)
    assert "zsh" in mosaic("completion", "tcsh", code=2).stderr
