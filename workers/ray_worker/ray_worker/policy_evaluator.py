"""Plays episodes with trained policies and counts what comes of it. No cluster, no training library."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mosaic.worker import ConfigError, refuse
from ray_worker.config import EnvironmentConfig, EnvironmentFamily
from ray_worker.environments import EnvironmentFactory
from ray_worker.evaluation_results import EpisodeMetrics, EvaluationResults, judge
from ray_worker.games import Game
from ray_worker.policies import RANDOM
from ray_worker.policy_actor import RandomActor, RayPolicyActor, RayPolicyController, ScriptActor


class Actor(Protocol):
    name: str

    def select_action(self, observation: Any, info: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True)
class EvaluationConfig:
    """What to play with whom. Episode n is played with seed `seed` + n, whoever plays it."""

    actor: RayPolicyActor | RayPolicyController
    num_episodes: int = 20
    # None: the environment that the actor was trained in.
    environment: EnvironmentConfig | None = None
    seed: int = 0
    # Agent -> team; agents that are left out are teams of their own.
    teams: Mapping[str, str] = field(default_factory=dict)
    # Let the scripts that the checkpoint names play where they did in training: runs their code.
    scripts: bool = False


class PolicyEvaluator:
    """Plays one environment again and again."""

    def __init__(self, environment: EnvironmentConfig, teams: Mapping[str, str] | None = None) -> None:
        self._game = EnvironmentFactory(environment).make()
        self.agents = list(self._game.agents)
        self.teams = {agent: agent for agent in self.agents} | dict(teams or {})
        self._has_sides = environment.family is EnvironmentFamily.CLASSIC or bool(teams)
        self._max_steps = environment.wrappers.max_steps

    def __enter__(self) -> PolicyEvaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self._game.close()

    @property
    def game(self) -> Game:
        return self._game

    def play(
        self, actor: Any, *, seed: int, episode: int = 0, seats: Mapping[str, str] | None = None
    ) -> EpisodeMetrics:
        """One episode with an actor that is told, by `info["agent"]`, whose turn it is."""
        begun, length = time.perf_counter(), 0
        turn = self._game.reset(seed)
        returns = dict.fromkeys(turn.observations, 0.0)
        while not turn.over:
            actions = {
                agent: actor.select_action(turn.observations[agent], {**(turn.infos.get(agent) or {}), "agent": agent})
                for agent in turn.to_act
            }
            turn = self._game.step(actions)
            length += 1
            for agent, reward in turn.rewards.items():
                returns[agent] = returns.get(agent, 0.0) + reward
        outcomes = judge(returns, self.teams) if self._has_sides and len(returns) > 1 else {}
        return EpisodeMetrics(episode, seed, length, returns, time.perf_counter() - begun, outcomes, dict(seats or {}))

    def evaluate(self, actor: Any, episodes: int, *, seed: int = 0) -> EvaluationResults:
        seats = actor.seats() if isinstance(actor, RayPolicyController) else dict.fromkeys(self.agents, actor.name)
        played = [self.play(actor, seed=seed + n, episode=n, seats=seats) for n in range(episodes)]
        return EvaluationResults(played, self.teams)

    def match(self, actors: Sequence[Actor], games: int, *, seed: int = 0) -> EvaluationResults:
        """Actors against each other, in every order of seats by turns; each seed is played in all of them."""
        played = []
        orders = list(_seatings(self.agents, actors))
        for n in range(games):
            seating = orders[n % len(orders)]
            controller = RayPolicyController(seating)
            played.append(self.play(controller, seed=seed + n // len(orders), episode=n, seats=controller.seats()))
        return EvaluationResults(played, self.teams)


def run_evaluation(config: EvaluationConfig) -> EvaluationResults:
    """Evaluate an actor in the environment that it was trained in, or in another."""
    if config.num_episodes < 1:
        raise ConfigError(refuse("num_episodes", config.num_episodes, "an integer >= 1"))
    with PolicyEvaluator(config.environment or _environment_of(config.actor), config.teams) as evaluator:
        actor = config.actor
        if isinstance(actor, RayPolicyActor) and actor.not_learned():
            actor = _with_the_others(actor, evaluator.game, config)
        return evaluator.evaluate(actor, config.num_episodes, seed=config.seed)


def _with_the_others(actor: RayPolicyActor, game: Game, config: EvaluationConfig) -> RayPolicyController:
    """Beside what has learned play those who did in training."""
    seats: dict[str, Any] = dict.fromkeys(game.agents, actor)
    for agent, player in actor.not_learned().items():
        if player == RANDOM:
            seats[agent] = RandomActor(game.action_spaces, seed=config.seed)
        elif config.scripts:
            seats[agent] = ScriptActor(player, agent)
        else:
            allowed = (
                f"true, so that {player} plays {agent} as in training, or a RayPolicyController with another actor"
            )
            raise ConfigError(refuse("scripts", False, allowed))
    return RayPolicyController(seats)


def _environment_of(actor: RayPolicyActor | RayPolicyController) -> EnvironmentConfig:
    if isinstance(actor, RayPolicyActor):
        return actor.content.environment_config
    found = [one for one in actor.actors.values() if isinstance(one, RayPolicyActor)]
    if not found:
        raise ConfigError(refuse("environment", None, "an environment (no actor here was trained in one)"))
    return found[0].content.environment_config


def _seatings(agents: Sequence[str], actors: Sequence[Actor]) -> Iterator[dict[str, Actor]]:
    """Every way to give the seats to the actors by turns."""
    for order in itertools.permutations(actors):
        yield {agent: order[index % len(order)] for index, agent in enumerate(agents)}
