"""No committed file names a package host or a path of somebody's machine: MOSAIC installs wherever it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# Written in pieces, so that this file does not name them either.
HOSTS = "|".join(
    [
        r"py" r"pi\.(org|io)",
        r"python" r"hosted\.org",
        r"npm" r"js\.(org|com)",
        r"deb\." r"debian",
        r"download\." r"pytorch",
        r"conda\." r"anaconda",
    ]
)
MACHINE = "|".join(
    [
        r"(?<![\w.])/wor" r"k/",
        r"(?<![\w.])/ro" r"ot/",
        r"/tmp/ba" r"sh_",
        r"(?<![\w.])/ho" r"me/\w",
        r"(?<![\w.])/Us" r"ers/\w",
        r"(?<![\w.])/op" r"t/\w",
    ]
)
FORBIDDEN = re.compile(f"{HOSTS}|{MACHINE}")
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+( ; .+)?")


def committed() -> list[Path]:
    """What git has or would take: also files that are new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [CHECKOUT / name for name in listed.split("\0") if name and (CHECKOUT / name).is_file()]


def text_of(file: Path) -> str:
    content = file.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


def test_no_host_and_no_path_of_a_machine() -> None:
    wrong = [
        f"{file.relative_to(CHECKOUT)}:{number}: {found.group()}"
        for file in committed()
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if (found := FORBIDDEN.search(line))
    ]
    assert wrong == []


def test_lock_files_are_plain_pins() -> None:
    locks = [file for file in committed() if file.suffix == ".lock"]
    assert CHECKOUT / "requirements.lock" in locks
    wrong = [
        f"{lock.relative_to(CHECKOUT)}: {line}"
        for lock in locks
        for line in lock.read_text().splitlines()
        if not PIN.fullmatch(line)
    ]
    assert wrong == []
