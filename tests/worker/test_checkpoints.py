"""A checkpoint is whole or not there, and what was harmed afterwards is not mistaken for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mosaic.worker import checkpoints
from mosaic.worker.checkpoints import CheckpointCard, CheckpointError


def card(step: int, **facts: int) -> CheckpointCard:
    return CheckpointCard(worker="w", algorithm="a", environment="e", step=step, **facts)


def save(run: Path, step: int, content: bytes = b"weights") -> Path:
    def write(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(content)
        (folder / "more").mkdir()
        (folder / "more" / "state.json").write_text("{}")

    return checkpoints.save(run / "checkpoints", card(step), write)


def test_a_saved_checkpoint_verifies_and_its_card_lists_every_file(tmp_path: Path) -> None:
    path = save(tmp_path, 12_000)
    found = checkpoints.verify(path)
    assert path.name == "step_000000012000"
    assert set(found.files) == {"weights.bin", "more/state.json"}
    assert found.files["weights.bin"].bytes == 7


def test_saving_the_same_step_again_replaces_the_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 5, b"old")
    path = save(tmp_path, 5, b"new")
    assert (path / "weights.bin").read_bytes() == b"new"
    assert checkpoints.latest(tmp_path) == path


def test_one_that_is_being_written_is_not_the_latest(tmp_path: Path) -> None:
    good = save(tmp_path, 1)
    unfinished = save(tmp_path, 2)
    unfinished.rename(unfinished.with_name(f".{unfinished.name}.tmp"))
    assert checkpoints.latest(tmp_path) == good
    checkpoints.prune(tmp_path / "checkpoints", keep=1)
    assert checkpoints.latest(tmp_path) == good


@pytest.mark.parametrize("harm", ["change", "remove", "truncate", "card"])
def test_a_harmed_checkpoint_is_refused_and_the_one_before_is_the_latest(tmp_path: Path, harm: str) -> None:
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    match harm:
        case "change":
            (bad / "weights.bin").write_bytes(b"Weights")
        case "remove":
            (bad / "weights.bin").unlink()
        case "truncate":
            os.truncate(bad / "weights.bin", 3)
        case "card":
            (bad / "card.json").write_text('{"step": ')
    with pytest.raises(CheckpointError, match=bad.name):
        checkpoints.verify(bad)
    assert checkpoints.latest(tmp_path) == good


def test_a_card_cannot_point_outside_of_its_checkpoint(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (tmp_path / "secret").write_text("x")
    text = (path / "card.json").read_text()
    (path / "card.json").write_text(text.replace('"weights.bin"', '"../../secret"'))
    with pytest.raises(CheckpointError, match="outside"):
        checkpoints.verify(path)


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        checkpoints.save(tmp_path / "checkpoints", card(1), write)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    assert checkpoints.latest(tmp_path) is None


@pytest.mark.parametrize("saved_before", [False, True])
def test_a_worker_killed_while_saving_leaves_no_half_checkpoint(tmp_path: Path, saved_before: bool) -> None:
    before = save(tmp_path, 9) if saved_before else None
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from mosaic.worker import checkpoints
        def write(folder):
            (folder / "big").write_bytes(b"x" * 1000)
            print("half", flush=True)
            sys.stdin.read()
        card = checkpoints.CheckpointCard(worker="w", algorithm="a", environment="e", step=9)
        checkpoints.save(Path(sys.argv[1]) / "checkpoints", card, write)
    """)
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stdin.close()
    assert checkpoints.latest(tmp_path) == before
    path = save(tmp_path, 9)
    assert checkpoints.latest(tmp_path) == path
    assert list(path.parent.iterdir()) == [path]


def test_pruning_keeps_the_newest(tmp_path: Path) -> None:
    paths = [save(tmp_path, step) for step in (1, 2, 3)]
    for age, path in enumerate(reversed(paths)):
        os.utime(path / "card.json", (1e9 - age, 1e9 - age))
    checkpoints.prune(tmp_path / "checkpoints", 2)
    assert [path.exists() for path in paths] == [False, True, True]
