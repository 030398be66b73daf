"""Curriculum schedules as configs have them: stages, their conditions, and presets. Needs no gymnasium."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

DEFAULT_CONDITION = "steps>=100000"
_CLAUSE = re.compile(r"(steps|episodes)>=\d+(\.\d+)?(e\d+)?|episode_return>=-?\d+(\.\d+)?(e-?\d+)?")

PresetName = Literal["BABYAI_GOTO_CURRICULUM", "BABYAI_DOORKEY_CURRICULUM"]


@dataclass(frozen=True)
class CurriculumStage:
    """One environment, and when to go on from it: after `steps`, or when any of the conditions holds."""

    env_id: Annotated[str, Meta(min_length=1, description="The environment of this stage")]
    steps: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Go on after this many steps")] = None
    condition: Annotated[
        str | None, Meta(description="steps>=N, episodes>=N or episode_return>=X; several are joined by |")
    ] = None

    @property
    def until(self) -> str:
        """The condition as Syllabus reads it."""
        given = [] if self.steps is None else [f"steps>={self.steps}"]
        if self.condition is not None:
            given += [clause.strip().replace(" ", "") for clause in self.condition.split("|")]
        return "|".join(given) or DEFAULT_CONDITION

    @property
    def is_valid(self) -> bool:
        return all(_CLAUSE.fullmatch(clause) for clause in self.until.split("|"))


def _stages(*env_ids: str, steps: int) -> tuple[CurriculumStage, ...]:
    return tuple(CurriculumStage(env_id, steps=steps) for env_id in env_ids)


BABYAI_GOTO_CURRICULUM = _stages(
    "BabyAI-GoToRedBallNoDists-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToObj-v0",
    "BabyAI-GoToLocal-v0",
    steps=200_000,
)
BABYAI_DOORKEY_CURRICULUM = _stages(
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-DoorKey-6x6-v0",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-DoorKey-16x16-v0",
    steps=200_000,
)
PRESETS: Mapping[str, tuple[CurriculumStage, ...]] = {
    "BABYAI_GOTO_CURRICULUM": BABYAI_GOTO_CURRICULUM,
    "BABYAI_DOORKEY_CURRICULUM": BABYAI_DOORKEY_CURRICULUM,
}


def resolve(schedule: Sequence[CurriculumStage] | str | None) -> tuple[CurriculumStage, ...]:
    """The stages that a config asks for; none if it asks for no curriculum."""
    if schedule is None:
        return ()
    return PRESETS[schedule] if isinstance(schedule, str) else tuple(schedule)
