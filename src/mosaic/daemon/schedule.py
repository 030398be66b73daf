"""Which of the waiting runs start now: a pure function of the queue and of what is free.

Higher priority first, then first come. A run that does not fit yet may be passed by smaller ones behind it, at most
`PASS_LIMIT` times; after that what it needs is kept free, and only runs that do without that may still pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PASS_LIMIT = 16


@dataclass(frozen=True)
class Need:
    """What a run takes, or what is free."""

    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def fits(self, free: Need) -> bool:
        return all(
            not wanted or wanted <= there
            for wanted, there in (
                (self.cpus, free.cpus),
                (self.memory_mb, free.memory_mb),
                (self.gpus, free.gpus),
            )
        )

    def minus(self, other: Need) -> Need:
        return Need(self.cpus - other.cpus, self.memory_mb - other.memory_mb, self.gpus - other.gpus)

    def plus(self, other: Need) -> Need:
        return Need(self.cpus + other.cpus, self.memory_mb + other.memory_mb, self.gpus + other.gpus)


@dataclass(frozen=True)
class Waiting:
    run_id: str
    priority: int
    place: int
    need: Need
    passes: int = 0


@dataclass(frozen=True)
class Plan:
    """What starts now, in this order; and how often each run that goes on waiting has been passed by now."""

    start: list[str]
    waiting: dict[str, int]


def plan(queue: Iterable[Waiting], free: Need, *, pass_limit: int = PASS_LIMIT) -> Plan:
    start: list[str] = []
    waiting: dict[str, int] = {}
    passable: list[Waiting] = []
    # What may still be handed out: what is free, less what is kept for runs that were passed often enough. It can fall
    # below zero; what a kept run lacks, nobody behind it gets.
    offer = free
    for run in sorted(queue, key=lambda run: (-run.priority, run.place)):
        if not run.need.fits(offer):
            waiting[run.run_id] = run.passes
            if run.passes < pass_limit:
                passable.append(run)
            else:
                offer = offer.minus(run.need)
            continue
        start.append(run.run_id)
        offer = offer.minus(run.need)
        for other in passable:
            waiting[other.run_id] += 1
            if waiting[other.run_id] == pass_limit:
                offer = offer.minus(other.need)
        passable = [other for other in passable if waiting[other.run_id] < pass_limit]
    return Plan(start, waiting)
