"""Games: who acts when, what they are paid, when it is over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mosaic.worker import ConfigError
from ray_worker.config import EnvironmentConfig, EnvironmentFamily, PettingZooAPIType, WrapperConfig
from ray_worker.environments import FAMILIES, EnvironmentFactory
from ray_worker.games import Game, Turn

EVERY_GAME = [(family, name) for family, (_, names) in FAMILIES.items() for name in names]
SLOW_TO_DRAW = {"cooperative_pong_v5", "pistonball_v6"}


def make(family: EnvironmentFamily, name: str, **settings: Any) -> Game:
    return EnvironmentFactory(EnvironmentConfig(family, name, **settings)).make()


def random_action(game: Game, agent: str, seen: Any, random: np.random.Generator) -> Any:
    space = game.action_spaces[agent]
    if hasattr(space, "n"):
        mask = seen.get("action_mask") if isinstance(seen, dict) else None
        return int(random.choice(np.arange(space.n) if mask is None else np.flatnonzero(mask)))
    return random.uniform(space.low, space.high).astype(np.float32)


def play(game: Game, seed: int, limit: int = 400) -> tuple[list[Turn], dict[str, float]]:
    """A random episode: all turns, and what each agent was paid in all."""
    random = np.random.default_rng(seed)
    turns = [game.reset(seed)]
    paid: dict[str, float] = {}
    while not turns[-1].over and len(turns) < limit:
        now = turns[-1]
        assert now.to_act, "somebody must be able to act while it is not over"
        turns.append(
            game.step({agent: random_action(game, agent, now.observations[agent], random) for agent in now.to_act})
        )
        for agent, reward in turns[-1].rewards.items():
            paid[agent] = paid.get(agent, 0.0) + reward
    return turns, paid


@pytest.mark.parametrize(("family", "name"), EVERY_GAME, ids=[name for _, name in EVERY_GAME])
def test_every_game_is_played_and_its_observations_encode(family: EnvironmentFamily, name: str) -> None:
    config = EnvironmentConfig(family, name, wrappers=WrapperConfig(max_steps=12))
    factory = EnvironmentFactory(config)
    facts, game = factory.facts(), factory.make()
    turns, _ = play(game, 1)
    assert turns[-1].over
    assert len(turns) <= 13
    for turn in turns:
        for agent, seen in turn.observations.items():
            codec = facts.codecs[agent]
            assert codec.encoded_space.contains(codec.encode(seen))
            mask = codec.mask(seen)
            assert (mask is not None) == codec.masked
            if mask is not None and agent in turn.to_act:
                assert mask.any()
    ended = set(turns[-1].terminated) | set(turns[-1].truncated)
    assert set(turns[-1].observations) == ended
    assert all(turns[-1].terminated.get(agent) or turns[-1].truncated.get(agent) for agent in ended)
    game.close()


@pytest.mark.parametrize("name", ["tictactoe_v3", "connect_four_v3"])
def test_board_games_pay_both_sides_at_the_end_and_nothing_before(name: str) -> None:
    game = make(EnvironmentFamily.CLASSIC, name)
    outcomes = set()
    for seed in range(40):
        turns, paid = play(game, seed)
        assert all(not any(turn.rewards.values()) for turn in turns[:-1])
        assert set(turns[-1].observations) == set(game.agents), "both learn how it ended"
        assert sum(paid.values()) == 0
        outcomes.add(tuple(paid[agent] for agent in game.agents))
    assert {(1.0, -1.0), (-1.0, 1.0)} <= outcomes


@pytest.mark.parametrize(
    ("family", "name", "kwargs"),
    [
        (EnvironmentFamily.MPE, "simple_spread_v3", {"max_cycles": 8}),
        (EnvironmentFamily.MPE, "simple_tag_v3", {"max_cycles": 8}),
        (EnvironmentFamily.SISL, "pursuit_v4", {"max_cycles": 8}),
    ],
)
def test_in_turn_and_all_at_once_pay_the_same(family: EnvironmentFamily, name: str, kwargs: dict[str, Any]) -> None:
    """The same actions in the same world: each agent is paid the same, whichever interface is used."""
    at_once = make(family, name, api_type=PettingZooAPIType.PARALLEL, env_kwargs=kwargs)
    in_turn = make(family, name, api_type=PettingZooAPIType.AEC, env_kwargs=kwargs)
    paid: list[dict[str, float]] = []
    for game in (at_once, in_turn):
        random = np.random.default_rng(5)
        script = [{agent: int(random.integers(5)) for agent in game.agents} for _ in range(8)]
        turn, total, taken = game.reset(3), dict.fromkeys(game.agents, 0.0), dict.fromkeys(game.agents, 0)
        while not turn.over:
            actions = {agent: script[taken[agent]][agent] for agent in turn.to_act}
            for agent in actions:
                taken[agent] += 1
            turn = game.step(actions)
            for agent, reward in turn.rewards.items():
                total[agent] += reward
        paid.append(total)
    for agent in at_once.agents:
        assert paid[0][agent] == pytest.approx(paid[1][agent])


def test_the_dead_are_told_once_and_act_no_more() -> None:
    game = make(
        EnvironmentFamily.BUTTERFLY, "knights_archers_zombies_v10", env_kwargs={"spawn_rate": 1, "max_cycles": 300}
    )
    turns, _ = play(game, 2, limit=400)
    gone: set[str] = set()
    for turn in turns:
        assert not gone & set(turn.observations)
        gone |= {agent for agent in turn.observations if turn.terminated.get(agent) or turn.truncated.get(agent)}
    assert len(gone) > 1


def test_a_cut_in_the_middle_of_a_round_pays_out_what_is_owed() -> None:
    whole = make(EnvironmentFamily.CLASSIC, "tictactoe_v3", wrappers=WrapperConfig(max_steps=3))
    turns, paid = play(whole, 0)
    assert len(turns) == 4
    assert turns[-1].cut
    assert set(turns[-1].truncated.values()) == {True}
    assert paid == {"player_1": 0.0, "player_2": 0.0}


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"family": EnvironmentFamily.CLASSIC, "env_id": "tictactoe_v2"}, "environment.env_id", "tictactoe_v3"),
        ({"family": EnvironmentFamily.GYMNASIUM, "env_id": "CartPole-v99"}, "environment.env_id", "CartPole"),
        (
            {"family": EnvironmentFamily.CLASSIC, "env_id": "chess_v6", "api_type": PettingZooAPIType.PARALLEL},
            "environment.api_type",
            "AEC",
        ),
        (
            {"family": EnvironmentFamily.MPE, "env_id": "simple_v3", "env_kwargs": {"nonsense": 1}},
            "environment.env_kwargs",
            "nonsense",
        ),
        ({"env_id": "CartPole-v1", "env_kwargs": {"nonsense": 1}}, "environment.env_kwargs", "nonsense"),
        ({"env_id": "CartPole-v1", "api_type": PettingZooAPIType.AEC}, "environment.api_type", "null"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EnvironmentFactory(EnvironmentConfig(**settings)).facts()
    (error,) = caught.value.errors
    assert error.field == field
    assert words in error.message
    assert "\n" not in error.message
