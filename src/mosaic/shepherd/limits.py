"""The memory limit of a run: the kernel's, where a delegated cgroup v2 lets us set it, else a watch on the tree."""

from __future__ import annotations

import os
from pathlib import Path

from mosaic.shepherd.processes import Process, proportional_bytes, resident_bytes

_MIB = 1 << 20


class MemoryCgroup:
    """A cgroup (v2) of the run's own, with memory.max set."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        (path / "memory.max").write_text(str(limit_bytes))
        swap = path / "memory.swap.max"
        if swap.exists():  # not on machines without swap accounting
            swap.write_text("0")  # else a run over its limit would go on, ever slower, in the swap
        # One victim would leave a crippled tree behind: the kernel ends all of it.
        (path / "memory.oom.group").write_text("1")

    @classmethod
    def create(cls, name: str, limit_bytes: int, *, proc_self: Path = Path("/proc/self")) -> MemoryCgroup | None:
        """None where there is no cgroup v2 whose memory controller we may use."""
        parent = _delegated_parent(proc_self)
        if parent is None:
            return None
        path = _cgroup(parent, name)
        try:
            path.mkdir()
            return cls(path, limit_bytes)
        except OSError:
            _remove(path)
            return None

    def add(self, pid: int) -> bool:
        try:
            (self._path / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    @property
    def killed_by_kernel(self) -> int:
        """How many processes the kernel's out-of-memory killer took from this run."""
        for line in (self._path / "memory.events").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
        return 0

    def remove(self) -> None:
        _remove(self._path)


def cgroup_name(run_id: str, attempt: int) -> str:
    return f"{run_id}.{attempt}"


def remove_left_cgroup(name: str, *, proc_self: Path = Path("/proc/self")) -> None:
    """What a shepherd left that was killed, once its processes are gone."""
    parent = _delegated_parent(proc_self)
    if parent is not None:
        _remove(_cgroup(parent, name))


def _cgroup(parent: Path, name: str) -> Path:
    return parent / f"mosaic-{name}"


def _remove(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        return  # not there, or still in use: the kernel drops an empty cgroup with its parent


def _delegated_parent(proc_self: Path) -> Path | None:
    """The folder in which we may make a cgroup with the memory controller: beside our own one, or in it."""
    mounts = [line.split() for line in (proc_self / "mounts").read_text().splitlines()]
    root = next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)
    line = next((text for text in (proc_self / "cgroup").read_text().splitlines() if text.startswith("0::")), None)
    if root is None or line is None:
        return None
    own = root / line.removeprefix("0::").lstrip("/")
    for parent in (own.parent, own) if own != root else (own,):
        control = parent / "cgroup.subtree_control"
        if control.exists() and "memory" in control.read_text().split() and os.access(parent, os.W_OK):
            return parent
    return None


def over_limit(processes: list[Process], limit_mb: int) -> int | None:
    """The tree's memory in MiB if it is over the limit.

    The quick sum counts shared pages several times, so a tree that is over by it is measured exactly.
    """
    if resident_bytes(processes) <= limit_mb * _MIB:
        return None
    used = proportional_bytes(processes) // _MIB
    return used if used > limit_mb else None


def kernel_oom_kills() -> int:
    """How often the out-of-memory killer struck on this machine since boot."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0
