"""Readers work wherever the store lies: live, copied, finished, read-only; and say clearly what they cannot read."""

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaic.store import RunReader, RunWriter, StoreError, StoreForeign, StoreMissing, StoreTooNew
from mosaic.worker.messages import Metric, Step


def begin(path: Path, attempt: int = 1) -> RunWriter:
    writer = RunWriter(path)
    writer.begin_attempt(attempt, started=1.0, resumed_step=10**6)
    return writer


def say(writer: RunWriter, count: int) -> int:
    writer.append([Step(step=i) for i in range(count)], 1.0)
    writer.append([Metric(step=1, values={"loss": 1.0})], 1.0)
    return writer.commit()


def test_reading_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = begin(path)
    writer.commit()
    with RunReader(path) as reader:
        for _ in range(20):
            last = say(writer, 50)
            assert reader.last_seq() == last
            assert reader.read(last - 1)[0]["seq"] == last
    writer.close()


def test_a_finished_store_is_one_file_and_reading_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = begin(path)
    last = say(writer, 10)
    writer.close()
    with RunReader(path) as reader:
        assert reader.last_seq() == last
        assert len(reader.read()) == last
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]


def test_a_reader_of_a_finished_store_sees_the_next_attempt(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = begin(path)
    say(writer, 10)
    writer.close()
    with RunReader(path) as reader:
        before = reader.read(limit=10_000)
        writer = begin(path, 2)
        assert reader.read(limit=10_000) == before
        last = say(writer, 5000)
        assert reader.last_seq() == last
        writer.close()
        writer = begin(path, 3)
        last = say(writer, 10)
        writer.close()
        assert [row["seq"] for row in reader.read(limit=10_000)] == list(range(1, last + 1))


def test_a_whole_attempt_between_two_looks(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = begin(path)
    say(writer, 10)
    writer.close()
    with RunReader(path) as reader:
        assert reader.attempts()[-1].attempt == 1
        writer = begin(path, 2)
        last = say(writer, 10)
        writer.close()
        assert reader.attempts()[-1].attempt == 2
        assert reader.last_seq() == last


def test_a_copied_folder(tmp_path: Path) -> None:
    """The copy of a live run's folder has the -wal and perhaps the -shm file."""
    live, copy, bare = tmp_path / "live", tmp_path / "a copy ?#%", tmp_path / "bare"
    live.mkdir()
    writer = begin(live / "run.sqlite")
    last = say(writer, 100)
    shutil.copytree(live, copy)
    shutil.copytree(live, bare, ignore=shutil.ignore_patterns("*-shm"))
    for folder in (copy, bare):
        with RunReader(folder / "run.sqlite") as reader:
            assert reader.last_seq() == last
            assert len(reader.read()) == last
            assert reader.plot("loss")[0].count == 1
    writer.close()


READ_ALL = """
import sys
from pathlib import Path
from mosaic.store import RunReader
try:
    (Path(sys.argv[1]).parent / "new").touch()
except PermissionError:
    pass
else:
    sys.exit("the folder is not read-only")
with RunReader(Path(sys.argv[1])) as reader:
    rows = reader.read(limit=10_000)
    print(len(rows), reader.last_seq(), len(reader.plot("loss")))
"""


@pytest.fixture
def folder_to_close(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "readonly"
    yield folder
    folder.chmod(0o755)


def heed_permissions() -> None:
    """Root may write anywhere; the tests want a reader that may not. So it gives that up on its way to exec."""
    pr_capbset_drop, cap_dac_override = 24, 1
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up CAP_DAC_OVERRIDE")


@pytest.mark.parametrize("files", ["finished", "live", "live without shm"])
def test_a_read_only_folder(tmp_path: Path, folder_to_close: Path, files: str) -> None:
    source, folder = tmp_path / "source", folder_to_close
    source.mkdir()
    writer = begin(source / "run.sqlite")
    last = say(writer, 200)
    if files == "finished":
        writer.close()
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*-shm") if files == "live without shm" else None)
    if files != "finished":
        writer.close()
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    command = [sys.executable, "-c", READ_ALL, str(folder / "run.sqlite")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, preexec_fn=heed_permissions
    )
    assert (done.stdout, done.stderr) == (f"{last} {last} 1\n", "")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["readonly", "source"]  # no temporary copy is left


def test_no_store_yet(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match=r"run\.sqlite is not there: no attempt of the run has started"):
        RunReader(tmp_path / "run.sqlite")


@pytest.mark.parametrize("content", [b"", b"hello, I am a text file" * 100])
def test_not_a_store(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(content)
    for opener in (RunReader, RunWriter):
        with pytest.raises(StoreForeign, match=r"run\.sqlite is not a MOSAIC store"):
            opener(path)
    assert path.read_bytes() == content


def test_somebody_elses_database(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (a)")
    database.close()
    before = path.read_bytes()
    for opener in (RunReader, RunWriter):
        with pytest.raises(StoreForeign, match="application id 0x0, not 0x4d4f5341"):
            opener(path)
    assert path.read_bytes() == before


def test_a_newer_store(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    begin(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 2")
    database.close()
    for opener in (RunReader, RunWriter):
        with pytest.raises(StoreTooNew, match="has store version 2, this MOSAIC reads up to version 1") as caught:
            opener(path)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, StoreError)


def test_half_made_stores_are_never_seen(tmp_path: Path) -> None:
    (tmp_path / ".run.sqlite.new").write_bytes(b"what a killed writer left behind")
    writer = begin(tmp_path / "run.sqlite")
    writer.close()
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]
