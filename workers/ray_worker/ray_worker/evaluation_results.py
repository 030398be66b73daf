"""What an evaluation found: every episode, and summaries with confidence intervals. Needs NumPy only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from mosaic.files import write_atomic
from mosaic.worker.estimates import Estimate, mean_of, share

Outcome = Literal["win", "draw", "loss"]


@dataclass(frozen=True)
class EpisodeMetrics:
    """One episode. In games with sides, `outcomes` says how it went for each agent."""

    episode: int
    seed: int
    length: int
    returns: Mapping[str, float]
    seconds: float = 0.0
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    # Which actor played which agent, where several play.
    seats: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_return(self) -> float:
        return float(sum(self.returns.values()))


@dataclass(frozen=True)
class Record:
    """Wins, draws and losses; a score counts a draw as half a win."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> Estimate:
        return share(self.wins, self.games)

    @property
    def score(self) -> float:
        return (self.wins + self.draws / 2) / self.games if self.games else math.nan


@dataclass(frozen=True)
class EvaluationResults:
    episodes: Sequence[EpisodeMetrics]
    teams: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_return(self) -> Estimate:
        return mean_of(episode.total_return for episode in self.episodes)

    @property
    def length(self) -> Estimate:
        return mean_of(float(episode.length) for episode in self.episodes)

    def agent_return(self, agent: str) -> Estimate:
        return mean_of(episode.returns[agent] for episode in self.episodes if agent in episode.returns)

    def team_return(self, team: str) -> Estimate:
        """Of the mean over a team's agents."""
        members = [agent for agent, name in self.teams.items() if name == team]
        return mean_of(
            float(np.mean([episode.returns[agent] for agent in members if agent in episode.returns]))
            for episode in self.episodes
        )

    def agent_record(self, agent: str) -> Record:
        return _record(episode.outcomes[agent] for episode in self.episodes if agent in episode.outcomes)

    def actor_record(self, actor: str) -> Record:
        """How an actor fared over all the agents that it played."""
        return _record(
            outcome
            for episode in self.episodes
            for agent, outcome in episode.outcomes.items()
            if episode.seats.get(agent) == actor
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: the summaries first, then every episode."""
        agents = sorted({agent for episode in self.episodes for agent in episode.returns})
        summary: dict[str, Any] = {
            "episodes": len(self.episodes),
            "total_return": asdict(self.total_return),
            "length": asdict(self.length),
            "agents": {agent: asdict(self.agent_return(agent)) for agent in agents},
            "teams": {team: asdict(self.team_return(team)) for team in dict.fromkeys(self.teams.values())},
            "records": {agent: asdict(self.agent_record(agent)) for agent in agents if self.agent_record(agent).games},
        }
        return {**summary, "details": [asdict(episode) for episode in self.episodes]}

    def save(self, path: Path) -> None:
        write_atomic(path, msgspec.json.format(msgspec.json.encode(self.as_dict())))


def judge(returns: Mapping[str, float], teams: Mapping[str, str]) -> dict[str, Outcome]:
    """Who won: the team with the highest mean return; a tie at the top is a draw for those who share it."""
    scores: dict[str, list[float]] = {}
    for agent, value in returns.items():
        scores.setdefault(teams[agent], []).append(value)
    means = {team: sum(values) / len(values) for team, values in scores.items()}
    best = max(means.values())
    winners = [team for team, value in means.items() if value == best]
    top: Outcome = "win" if len(winners) == 1 else "draw"
    return {agent: top if teams[agent] in winners else "loss" for agent in returns}


def _record(outcomes: Iterable[Outcome]) -> Record:
    found = list(outcomes)
    return Record(found.count("win"), found.count("draw"), found.count("loss"))
