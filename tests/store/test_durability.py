"""What commit() returned for is in the store exactly once: after kills in the midst of it, and after a full disk."""

import functools
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mosaic.store import RunReader, RunWriter
from mosaic.worker.messages import Metric, from_number

# Says the rows that follow from their own number, so that whoever reads them can tell whether one is wrong.
SPEAKER = """
import sys
from pathlib import Path
from mosaic.store import RunReader, RunWriter, writer as writer_module
from mosaic.worker.messages import Episode, Log, Metric, Step

writer_module.CHECKPOINT_BYTES = 1 << 18  # many checkpoints, so that kills hit them too

def message(seq):
    match seq % 4:
        case 0: return Step(step=seq, reward=float(seq), extra={"seq": seq})
        case 1: return Metric(step=seq, values={"loss": float(seq), f"m{seq % 3}": 1.0})
        case 2: return Episode(step=seq, episode=seq, episode_return=float(seq), length=1)
        case _: return Log(message=f"row {seq}")

def say(writer, count):
    first = writer.last_seq + 1
    writer.append([message(seq) for seq in range(first, first + count)], 1.0)
"""

SPEAK_UNTIL_KILLED = (
    SPEAKER
    + """
writer = RunWriter(Path(sys.argv[1]))
writer.begin_attempt(int(sys.argv[2]), started=1.0, resumed_step=2**62)
while True:
    say(writer, 1 + writer.last_seq % 700)
    print(writer.commit(), flush=True)
"""
)


def check_whole(path: Path, at_least: int) -> int:
    """Every row there once, without gaps, and what it should be; returns the last seq."""
    with RunReader(path) as reader:
        last = reader.last_seq()
        assert last >= at_least
        since, points = 0, 0
        while page := reader.read(since, limit=5000):
            assert [row["seq"] for row in page] == list(range(since + 1, since + 1 + len(page)))
            for row in page:
                seq = row["seq"]
                match row["type"]:
                    case "step":
                        assert (row["step"], row["reward"], row["extra"]) == (seq, float(seq), {"seq": seq})
                    case "metric":
                        assert row["values"] == {"loss": float(seq), f"m{seq % 3}": 1.0}
                        points += 1
                    case "episode":
                        assert row["episode_return"] == float(seq)
                    case "log":
                        assert row["message"] == f"row {seq}"
            since = page[-1]["seq"]
        assert since == last
        plot = reader.plot("loss", max_points=50)
        assert sum(point.count for point in plot) == points
        total = sum(from_number(point.mean) * point.count for point in plot if point.mean is not None)
        rows = reader.read(kinds=["metric"], limit=last)
        assert total == pytest.approx(sum(row["values"]["loss"] for row in rows))
        return last


def test_killed_in_the_midst_of_committing(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    dice = random.Random(20261118)
    last = 0
    for attempt in range(1, 7):
        command = [sys.executable, "-c", SPEAK_UNTIL_KILLED, str(path), str(attempt)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as speaker:
            assert speaker.stdout is not None
            acknowledged = 0
            for _ in range(dice.randrange(1, 60)):
                acknowledged = int(speaker.stdout.readline())
            # Some way into the next commit: it is the work that follows the line that was just read.
            for _ in range(dice.randrange(20_000)):
                pass
            speaker.send_signal(signal.SIGKILL)
            rest = speaker.stdout.read().split("\n")
            acknowledged = max(acknowledged, *(int(line) for line in rest[:-1])) if rest[:-1] else acknowledged
        assert acknowledged > last
        last = check_whole(path, acknowledged)
    with RunReader(path) as reader:
        assert [info.attempt for info in reader.attempts()] == list(range(1, 7))
    writer = RunWriter(path)
    assert (writer.last_seq, writer.last_attempt) == (last, 6)
    writer.close()
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]


# Runs against the full disk again and again; rows go on arriving while the batch waits.
SPEAK_INTO_A_FULL_DISK = (
    SPEAKER
    + """
import sqlite3

def speak(path, fill, free):
    writer = RunWriter(path)
    writer.begin_attempt(1, started=1.0)
    writer.commit()
    refusals = 0
    for _ in range(3):
        fill()
        refused = 0
        while refused < 5:
            say(writer, 500)
            try:
                writer.commit()
            except sqlite3.OperationalError:
                refused += 1
        refusals += refused
        assert writer.pending >= 2500, writer.pending
        free()
        assert writer.commit() == writer.last_seq
        with RunReader(path) as reader:
            assert reader.last_seq() == writer.last_seq
    say(writer, 10)
    writer.commit()
    print(writer.last_seq, refusals)
    writer.close()
"""
)

LIMITED_FILE_SIZE = (
    SPEAK_INTO_A_FULL_DISK
    + """
import resource

limit = 0
def fill():
    global limit
    limit += 1 << 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
def free():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    global limit
    limit = max(p.stat().st_size for p in Path(sys.argv[1]).parent.iterdir())
speak(Path(sys.argv[1]), fill, free)
"""
)

SMALL_FILE_SYSTEM = (
    SPEAK_INTO_A_FULL_DISK
    + """
import shutil, subprocess

small = Path(sys.argv[1]).parent / "small"
small.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", small], check=True)
filler = small / "filler"
def fill():
    with filler.open("wb") as file:
        left = shutil.disk_usage(small).free - (300 << 10)
        file.write(bytes(max(left, 0)))
def free():
    filler.unlink()
speak(small / "run.sqlite", fill, free)
shutil.copy(small / "run.sqlite", sys.argv[1])
"""
)


def run_speaker(command: list[str]) -> tuple[int, int]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    last, refusals = map(int, done.stdout.split())
    return last, refusals


def test_no_room_for_longer_files(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    last, refusals = run_speaker([sys.executable, "-c", LIMITED_FILE_SIZE, str(path)])
    assert refusals == 15
    assert check_whole(path, last) == last


def test_full_file_system(tmp_path: Path) -> None:
    unshare = ["unshare", "--mount", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    path = tmp_path / "run.sqlite"
    last, refusals = run_speaker([*unshare, sys.executable, "-c", SMALL_FILE_SYSTEM, str(path)])
    assert refusals == 15
    assert check_whole(path, last) == last


class Doubtful(sqlite3.Connection):
    """Reports the failure of a COMMIT that succeeded, once."""

    lied = False

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *given)
        if sql == "COMMIT" and not self.lied:
            self.lied = True
            raise sqlite3.OperationalError("disk I/O error")
        return cursor


def test_a_batch_whose_commit_failed_and_yet_did_not_is_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.sqlite"
    RunWriter(path).close()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Doubtful))
        writer = RunWriter(path)
    writer.begin_attempt(1, started=1.0)
    writer.append([Metric(step=step, values={"loss": float(step)}) for step in range(20)], 1.0)
    writer.count("malformed", 2)
    with pytest.raises(sqlite3.OperationalError):
        writer.commit()
    writer.append([Metric(step=step, values={"loss": float(step)}) for step in range(20, 30)], 1.0)
    writer.count("malformed", 2)
    assert writer.commit() == 31
    writer.close()
    with RunReader(path) as reader:
        assert [row["seq"] for row in reader.read()] == list(range(1, 32))
        assert sum(point.count for point in reader.plot("loss", max_points=3)) == 30
        assert reader.counters() == {"malformed": 4}
