"""What this machine has to hand out: CPU slots, memory, and GPUs by index."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from mosaic.daemon.job import Resources
from mosaic.daemon.schedule import Need
from mosaic.worker import FieldError, refuse

CPUS_VARIABLE = "MOSAIC_CPUS"
MEMORY_VARIABLE = "MOSAIC_MEMORY_MB"
GPUS_VARIABLE = "MOSAIC_GPUS"
NVIDIA_FOLDER = Path("/proc/driver/nvidia/gpus")


class BadSetting(Exception):
    """An environment variable that says something impossible."""


@dataclass(frozen=True)
class Capacity:
    """All that can be handed out; GPUs by what CUDA_VISIBLE_DEVICES calls them."""

    cpus: int
    memory_mb: int
    gpus: tuple[str, ...]

    @property
    def total(self) -> Need:
        return Need(self.cpus, self.memory_mb, len(self.gpus))

    def impossible(self, wanted: Resources) -> list[FieldError]:
        """Why a run that wants this can never start here; empty if it can."""
        checks: list[tuple[str, int, int, str]] = [
            ("resources.cpus", wanted.cpus, self.cpus, CPUS_VARIABLE),
            ("resources.memory_mb", wanted.memory_mb or 0, self.memory_mb, MEMORY_VARIABLE),
            ("resources.gpus", wanted.gpus, len(self.gpus), GPUS_VARIABLE),
        ]
        return [
            refuse(field, given, f"at most {there}, which is what this machine has (set by {variable} if not)")
            for field, given, there, variable in checks
            if given > there
        ]


def need_of(resources: Resources) -> Need:
    return Need(resources.cpus, resources.memory_mb or 0, resources.gpus)


def pick_gpus(capacity: Capacity, taken: Collection[str], count: int) -> list[str]:
    return [gpu for gpu in capacity.gpus if gpu not in taken][:count]


def describe_lack(need: Need, free: Need) -> str:
    """What a waiting run waits for."""
    lacking = [
        f"{wanted} {name} (free: {max(there, 0)})"
        for name, wanted, there in (
            ("CPU slots" if need.cpus > 1 else "CPU slot", need.cpus, free.cpus),
            ("MB of memory", need.memory_mb, free.memory_mb),
            ("GPUs" if need.gpus > 1 else "GPU", need.gpus, free.gpus),
        )
        if wanted > there
    ]
    return "waiting for " + " and ".join(lacking) if lacking else "waiting its turn"


def find_capacity(environment: Mapping[str, str] = os.environ) -> Capacity:
    return Capacity(
        cpus=_number(environment, CPUS_VARIABLE) or len(os.sched_getaffinity(0)),
        memory_mb=_number(environment, MEMORY_VARIABLE) or _machine_memory_mb(),
        gpus=_gpus(environment),
    )


def _number(environment: Mapping[str, str], variable: str) -> int | None:
    text = environment.get(variable)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise BadSetting(f"{variable}: got {text!r}, allowed: a whole number from 1 up")
    return int(text)


def _machine_memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """MOSAIC_GPUS ("0,1"; empty: none), or those that CUDA_VISIBLE_DEVICES leaves to the daemon, or all of NVIDIA's."""
    for variable in (GPUS_VARIABLE, "CUDA_VISIBLE_DEVICES"):
        given = environment.get(variable)
        if given is not None:
            return tuple(dict.fromkeys(part.strip() for part in given.split(",") if part.strip()))
    return tuple(str(index) for index in range(_count_nvidia_gpus()))


def _count_nvidia_gpus() -> int:
    if NVIDIA_FOLDER.is_dir():
        return sum(1 for _ in NVIDIA_FOLDER.iterdir())
    # In containers and under WSL the folder may be missing while the tool works.
    tool = which("nvidia-smi")
    if tool is None:
        return 0
    answer = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=20, check=False)
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines()) if answer.returncode == 0 else 0
