"""SELF_PLAY: a league of frozen snapshots that the learning policy plays against.

Opponents sit in a fixed number of policies whose weights are exchanged, so that nothing has to be rebuilt. Who is
strong is judged by games of their own, with seats swapped, where a draw is a draw; training batches say nothing about
it. All of it, the state of the dice included, lies in the checkpoint and is restored from there.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mosaic.worker.telling import Teller
from ray_worker import policy_file
from ray_worker.config import LeagueConfig, Matchmaking, PolicyConfiguration, RayWorkerConfig
from ray_worker.evaluation_results import Record
from ray_worker.network import Network
from ray_worker.policies import MAIN, PolicyPlan
from ray_worker.policy_actor import RandomActor
from ray_worker.policy_evaluator import PolicyEvaluator
from ray_worker.policy_file import NetworkPolicy

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

FILE = "league.json"
# Even a snapshot that is always beaten is met now and then, lest the policy forgets how.
LEAST_WEIGHT = 0.05

Weights = dict[str, NDArray[np.float32]]


class Member(msgspec.Struct):
    """A snapshot; the counts are the learning policy's, from its last games against it."""

    name: str
    step: int
    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def record(self) -> Record:
        return Record(self.wins, self.draws, self.losses)

    @property
    def weight(self) -> float:
        """How much there is to learn from it; one that was never judged counts as an equal."""
        score = self.record.score if self.record.games else 0.5
        return max(LEAST_WEIGHT, (1 - score) ** 2)


class LeagueState(msgspec.Struct):
    next_snapshot: int
    random: dict[str, Any]
    members: list[Member] = []
    seated: list[str] = []
    judgements: int = 0


class League:
    """Takes snapshots, has them judged, and chooses whom to meet."""

    def __init__(self, config: RayWorkerConfig, plan: PolicyPlan) -> None:
        self._config: LeagueConfig = config.league
        self._environment = config.environment
        self._plan = plan
        self._random = np.random.default_rng(config.training.seed)
        self._weights: dict[str, Weights] = {}
        self.state = LeagueState(config.league.snapshot_every, {})

    @classmethod
    def of(cls, config: RayWorkerConfig, plan: PolicyPlan) -> League | None:
        return cls(config, plan) if config.policy_configuration is PolicyConfiguration.SELF_PLAY else None

    def begin(self, algorithm: Algorithm) -> None:
        """The first snapshot is the policy before it has learned anything."""
        self._snapshot(algorithm, 0)
        self._seat(algorithm)

    def after_iteration(self, algorithm: Algorithm, step: int, telemetry: Teller) -> None:
        if step < self.state.next_snapshot:
            return
        if self._config.evaluation_games:
            telemetry.metric(step, self._judge(algorithm))
        self._snapshot(algorithm, step)
        self._seat(algorithm)
        self.state.next_snapshot = step + self._config.snapshot_every

    def save(self, folder: Path) -> dict[str, Weights]:
        """Write the league's own state; the answer is the snapshots, which are written as policies."""
        self.state.random = _plain(self._random.bit_generator.state)
        (folder / FILE).write_bytes(msgspec.json.encode(self.state))
        return self._weights

    def restore(self, folder: Path) -> None:
        """RLlib has restored who sits where; all else comes from our own files."""
        self.state = msgspec.json.decode((folder / FILE).read_bytes(), type=LeagueState)
        self._random.bit_generator.state = _numbers(self.state.random)
        self._weights = {member.name: policy_file.load_weights(folder, member.name) for member in self.state.members}

    def _snapshot(self, algorithm: Algorithm, step: int) -> None:
        from ray_worker import export

        member = Member(f"snapshot_{step:012d}", step)
        self._weights[member.name] = export.in_learner(algorithm, MAIN, export.plain_weights)
        self.state.members.append(member)
        while len(self.state.members) > self._config.keep:
            # The first one stays: it tells how far the policy has come.
            del self._weights[self.state.members.pop(1).name]

    def choose(self) -> list[str]:
        """A member for each seat, by the rule of the config."""
        members, seats = self.state.members, len(self._plan.frozen)
        if self._config.matchmaking is Matchmaking.LATEST:
            return [members[-1].name] * seats
        weights = np.ones(len(members))
        if self._config.matchmaking is Matchmaking.PRIORITISED:
            weights = np.array([member.weight for member in members])
        chosen = self._random.choice(len(members), size=seats, p=weights / weights.sum())
        return [members[index].name for index in chosen]

    def _seat(self, algorithm: Algorithm) -> None:
        from ray_worker import export

        self.state.seated = self.choose()
        states = {}
        for slot, name in zip(self._plan.frozen, self.state.seated, strict=True):
            put_in = functools.partial(export.rllib_state, weights=self._weights[name])
            states[slot] = export.in_learner(algorithm, slot, put_in)
        algorithm.set_state({"learner_group": {"learner": {"rl_module": states}}})

    def _judge(self, algorithm: Algorithm) -> dict[str, float]:
        """Games against random play and snapshots: the first, the newest and, where it matters for the choice, all."""
        from ray_worker import export

        entry, trained = export.network_of(algorithm, MAIN, self._plan.policies[MAIN])
        self.state.judgements += 1
        seed = self.state.judgements * 1_000_003

        def actor(name: str, weights: Weights) -> _Player:
            network = Network(entry.layers, weights)
            # Drawing actions as in training: two policies that always do their best play one game again and again.
            policy = NetworkPolicy(entry, network, explore=True, seed=int(self._random.integers(2**31)))
            return _Player(name, policy, self._plan)

        values: dict[str, float] = {}
        members = self.state.members
        judged = members if self._config.matchmaking is Matchmaking.PRIORITISED else [members[0], members[-1]]
        with PolicyEvaluator(self._environment) as evaluator:
            main = actor(MAIN, trained)
            for member in {member.name: member for member in judged}.values():
                rival = actor(member.name, self._weights[member.name])
                record = evaluator.match((main, rival), self._config.evaluation_games, seed=seed).actor_record(MAIN)
                member.wins, member.draws, member.losses = record.wins, record.draws, record.losses
            dice = RandomActor(evaluator.game.action_spaces, seed=seed)
            record = evaluator.match((main, dice), self._config.evaluation_games, seed=seed).actor_record(MAIN)
            values |= _scores("random", record)
        values |= _scores("first", members[0].record) | _scores("newest", members[-1].record)
        return {**values, "league/size": len(members)}


class _Player:
    """A network that plays any agent."""

    def __init__(self, name: str, policy: NetworkPolicy, plan: PolicyPlan) -> None:
        self.name = name
        self._policy = policy
        self._codecs = plan.codecs

    def select_action(self, observation: Any, info: Any) -> Any:
        return self._policy.act(self._codecs[info["agent"]], observation, info)


def _scores(against: str, record: Record) -> dict[str, float]:
    games = max(1, record.games)
    return {
        f"league/{against}/win_rate": record.wins / games,
        f"league/{against}/draw_rate": record.draws / games,
        f"league/{against}/score": record.score,
    }


def _plain(state: Any) -> dict[str, Any]:
    """PCG64's state holds 128-bit integers: as text, because not every JSON reader takes them."""
    return {**state, "state": {name: str(value) for name, value in state["state"].items()}}


def _numbers(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "state": {name: int(value) for name, value in state["state"].items()}}
