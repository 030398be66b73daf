"""Where Ray keeps its sockets, logs and token while a run lives, and how they are gone afterwards whatever killed it.

Under a shepherd they lie in the run's folder in shared memory, which the shepherd removes at the end. Started by hand,
they lie in a folder below the system's temporary one; what a killed run left there is removed by the next start.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "mosaic-ray-"
LOCK = "lock"
RAY_FOLDER = "r"
SESSION_NAME = "s"
TEMPORARY_FOLDER = "t"
# Linux allows 107 bytes for the path of a socket; this is Ray's longest.
LONGEST = 107 - len(f"/{RAY_FOLDER}1/{SESSION_NAME}/sockets/plasma_store")


@contextmanager
def scratch_folder(attempt: int) -> Iterator[Path]:
    """A short-named folder for this user only, removed at the end."""
    given = os.environ.get("MOSAIC_FASTLANE_DIR")
    folder = Path(given) / f"ray-{attempt}" if given else None
    if folder is None or len(str(folder)) > LONGEST:
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    else:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let this process and those that it starts make their temporary files there."""
    place = folder / TEMPORARY_FOLDER
    place.mkdir(mode=0o700)
    variable, directory = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    try:
        yield
    finally:
        tempfile.tempdir = directory
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable


def remove_abandoned() -> None:
    """Remove the folders of this user's runs that did not live to remove them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if folder.lstat().st_uid != os.geteuid() or not (folder / LOCK).is_file():
            continue
        with (folder / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder, ignore_errors=True)
