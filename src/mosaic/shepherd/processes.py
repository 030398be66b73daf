"""The process tree, read from /proc: who descends from whom, and signals that cannot hit a stranger."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    state: str
    start_ticks: int  # with the pid, the identity of a process


def become_subreaper() -> None:
    """Descendants that lose their parent become our children, whatever session they fled to."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def read_process(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # gone, or hidden since it is somebody else's
        return None
    # The name is in parentheses and may itself hold blanks and parentheses: fields count from the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def all_processes() -> list[Process]:
    found = (read_process(int(name)) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208 - names only, fast
    return [process for process in found if process is not None and process.state not in "ZX"]


def descendants(root: int) -> list[Process]:
    """Every living process below `root`."""
    return below(all_processes(), {root})


def below(processes: Iterable[Process], roots: set[int]) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    level = list(roots)
    while level:
        step = [child for pid in level for child in children.get(pid, ()) if child.pid not in roots]
        found += step
        level = [child.pid for child in step]
    return found


def send_signal(process: Process, number: int) -> bool:
    """Signal exactly this process: a pid that was given to another one meanwhile is left alone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.start_ticks != process.start_ticks:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def freeze(find: Callable[[], list[Process]]) -> int:
    """SIGSTOP all that `find` finds, again and again until nothing new turns up. Returns how many.

    Twice nothing new: one look at /proc takes a while, and can miss a child whose parent has just gone.
    """
    stopped: set[Process] = set()
    quiet = 0
    for _ in range(100):
        fresh = [p for p in find() if p.state != "T" and _identity(p) not in stopped]
        quiet = 0 if fresh else quiet + 1
        if quiet == 2:
            break
        for process in fresh:
            send_signal(process, signal.SIGSTOP)
            stopped.add(_identity(process))
    return len(stopped)


def thaw(find: Callable[[], list[Process]]) -> None:
    for process in find():
        send_signal(process, signal.SIGCONT)


def kill_all(
    find: Callable[[], list[Process]], nobody_left: Callable[[], bool], *, limit_s: float = 10.0
) -> list[Process]:
    """SIGKILL all that `find` finds until nobody is left; returns what would not die within the limit.

    First everything is stopped, so that nothing can fork away from the kill.
    """
    deadline = time.monotonic() + limit_s
    while not nobody_left():
        freeze(find)
        alive = find()
        if time.monotonic() > deadline:
            return alive
        for process in alive:
            send_signal(process, signal.SIGKILL)
        time.sleep(0.002)
    return []


def _identity(process: Process) -> Process:
    return process._replace(state="", parent=0, session=0)


def resident_bytes(processes: Iterable[Process]) -> int:
    """Sum of the resident sizes: pages shared between processes count once for each, so this is an upper bound."""
    total = 0
    for process in processes:
        try:
            total += int(Path(f"/proc/{process.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def proportional_bytes(processes: Iterable[Process]) -> int:
    """Sum of the proportional sizes: shared pages are divided among those who share them. Exact, and slower."""
    total = 0
    for process in processes:
        try:
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        for line in rollup.splitlines():
            if line.startswith(b"Pss:"):
                total += int(line.split()[1]) * 1024
                break
    return total


def leftovers(run_id: str, session: int | None = None) -> list[Process]:
    """Processes of a run whose shepherd is dead: they carry its MOSAIC_RUN_ID, or are in the worker's session (some
    overwrite their environment with a title), or descend from one of those.

    Never ourselves or our ancestors, which a run started from inside another run would otherwise hit.
    """
    mark = b"MOSAIC_RUN_ID=" + run_id.encode()
    processes = all_processes()
    parents = {process.pid: process.parent for process in processes}
    spared = {0, 1}
    pid = os.getpid()
    while pid not in spared:
        spared.add(pid)
        pid = parents.get(pid, 0)
    ours = {p.pid for p in processes if p.pid not in spared and (p.session == session or mark in _environment(p.pid))}
    family = ours | {p.pid for p in below(processes, ours)}
    return [p for p in processes if p.pid in family - spared]


def boot_id() -> str:
    """Pids and sessions on record mean something only within one boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
