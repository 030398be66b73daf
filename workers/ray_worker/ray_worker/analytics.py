"""What a run has come to, for the summary that it ends with and that stands in its `analytics.json`. Needs no Ray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray_worker.league import League
    from ray_worker.population import Member
    from ray_worker.training import TrainingState


def training_summary(
    state: TrainingState, recent_return: float | None = None, league: League | None = None
) -> dict[str, Any]:
    """How far it has come; of a league, how the policy fared against each snapshot when they last played."""
    summary = {"steps": state.step, "episodes": state.episodes, "recent_return": recent_return}
    if league is None:
        return summary
    fields = ("name", "step", "wins", "draws", "losses")
    return {**summary, "league": [{field: getattr(one, field) for field in fields} for one in league.state.members]}


def population_summary(members: Sequence[Member], best: Member) -> dict[str, Any]:
    return {
        "steps": min(member.step for member in members),
        "episodes": sum(member.episodes for member in members),
        "best": best.name,
        "members": {
            member.name: {
                "step": member.step,
                "score": member.score,
                "parent": member.parent,
                "hyperparameters": member.hyperparameters,
            }
            for member in members
        },
    }
