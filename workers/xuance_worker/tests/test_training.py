"""What a run tells, what its checkpoints can do afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Train, make_config

SPREAD: dict[str, Any] = {"parallels": 2, "total_timesteps": 400, "report_every": 100}
SMALL_REPLAY = {"buffer_size": 600, "start_training": 100, "training_frequency": 10}
EPSILON = "exploration/epsilon"


def test_what_is_told_of_a_team(train: Train) -> None:
    told = train(make_config(hyperparameters={"buffer_size": 100}, tensorboard=True, **SPREAD))
    assert list(told.metrics) == [100, 200, 300, 400]
    values = told.metrics[400]
    assert values["episode_len_mean"] == 25
    assert {f"agent/agent_{number}/episode_return_mean" for number in range(3)} <= values.keys()
    assert values["throughput/env_steps_per_s"] > 0
    assert any("actor_loss" in name for name in told.learner_names())
    assert any("learning_rate" in name for name in told.learner_names())
    assert len(told.episodes) == 400 // 25
    episode = told.episodes[-1]
    assert episode["episode_return"] == pytest.approx(np.mean(list(episode["extra"]["agents"].values())))
    assert list((told.folder / "tensorboard").glob("events.*"))


def test_epsilon_falls_within_half_of_the_budget(train: Train) -> None:
    told = train(make_config(algorithm="vdn", hyperparameters=SMALL_REPLAY, **SPREAD))
    falling = [values[EPSILON] for values in told.metrics.values()]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > 0.5
    assert falling[-1] == pytest.approx(0.05, abs=0.01)


OTHERS: dict[str, dict[str, Any]] = {
    "vdn": {"hyperparameters": SMALL_REPLAY},
    "iql": {"hyperparameters": SMALL_REPLAY},
    "owqmix": {"hyperparameters": SMALL_REPLAY},
    "iddpg": {"hyperparameters": SMALL_REPLAY},
    "isac": {"hyperparameters": SMALL_REPLAY},
    "matd3": {"hyperparameters": SMALL_REPLAY},
    "itd3": {"hyperparameters": SMALL_REPLAY},
    "ddqn": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"start_training": 100}},
    "dueldqn": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"start_training": 100}},
    "a2c": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"horizon_size": 64}},
    "ddpg": {"env_family": "gymnasium", "env_id": "Pendulum-v1", "hyperparameters": {"start_training": 100}},
    "td3": {"env_family": "gymnasium", "env_id": "Pendulum-v1", "hyperparameters": {"start_training": 100}},
    "qtran": {"hyperparameters": SMALL_REPLAY},
    "qtran_alt": {"hyperparameters": SMALL_REPLAY},
    "vdac": {"hyperparameters": {"buffer_size": 100, "mixer": "QMIX"}},
    "iac": {"hyperparameters": {"buffer_size": 100}, "env_kwargs": {"continuous_actions": True}},
    "mfac": {"hyperparameters": {"buffer_size": 100, "n_epochs": 2}},
    "ic3net": {"hyperparameters": {"buffer_size": 4}},
    "tarmac": {"hyperparameters": {"buffer_size": 4}},
    "pg": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"horizon_size": 64}},
    "noisydqn": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"start_training": 100}},
    "c51": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"start_training": 100}},
    "qrdqn": {"env_family": "gymnasium", "env_id": "CartPole-v1", "hyperparameters": {"start_training": 100}},
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", OTHERS)
def test_every_other_algorithm_learns_saves_and_is_evaluated(train: Train, algorithm: str) -> None:
    given = {**SPREAD, **OTHERS[algorithm]}
    told = train(make_config(algorithm=algorithm, **given))
    assert told.learner_names()
    evaluated = evaluate(train, told.last_checkpoint, algorithm=algorithm, **given)
    assert evaluated.summary["episodes"] == 2


UNLIKE: dict[str, dict[str, Any]] = {
    "mappo": {"hyperparameters": {"buffer_size": 100}},
    "ippo": {"hyperparameters": {"buffer_size": 100, "n_epochs": 1}},
    "qmix": {"hyperparameters": SMALL_REPLAY},
    "vdn": {"hyperparameters": SMALL_REPLAY},
    "iql": {"hyperparameters": SMALL_REPLAY},
    "coma": {"hyperparameters": {"buffer_size": 100, "n_epochs": 1}},
    "maddpg": {"hyperparameters": SMALL_REPLAY},
    "masac": {"hyperparameters": SMALL_REPLAY},
    "iddpg": {"hyperparameters": SMALL_REPLAY},
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", UNLIKE)
def test_agents_with_unlike_spaces(train: Train, algorithm: str) -> None:
    given = {**SPREAD, "env_id": "simple_adversary_v3", **UNLIKE[algorithm]}
    told = train(make_config(algorithm=algorithm, **given))
    assert told.learner_names()
    assert evaluate(train, told.last_checkpoint, algorithm=algorithm, **given).summary["episodes"] == 2


def evaluate(train: Train, checkpoint: Path, **given: Any) -> Any:
    return train(make_config(**{**given, "mode": "evaluate", "checkpoint": str(checkpoint), "episodes": 2}))


def test_evaluation_repeats_itself_and_learns_nothing(train: Train) -> None:
    given = {**SPREAD, "algorithm": "mappo", "hyperparameters": {"buffer_size": 100}}
    checkpoint = train(make_config(**given)).last_checkpoint
    first, second = (evaluate(train, checkpoint, **given) for _ in range(2))
    assert first.summary["returns"] == second.summary["returns"]
    assert len(first.episodes) == 2
    assert not first.checkpoints
    assert not first.learner_names()


@pytest.mark.parametrize("algorithm", ["mappo", "qmix"])
def test_served_policy_answers_for_one_and_for_all(train: Train, algorithm: str) -> None:
    from xuance_worker.policy import TrainedPolicy

    given = {"buffer_size": 100} if algorithm == "mappo" else SMALL_REPLAY
    told = train(
        make_config(algorithm=algorithm, env_kwargs={"continuous_actions": False}, hyperparameters=given, **SPREAD)
    )
    policy = TrainedPolicy(told.last_checkpoint)
    random = np.random.default_rng(1)
    seen = {f"agent_{number}": random.normal(size=18).tolist() for number in range(3)}
    together = policy.select_action(seen, {})
    assert together == {agent: policy.select_action(seen[agent], {"agent": agent}) for agent in seen}
    assert all(action in range(5) for action in together.values())
    with pytest.raises(ValueError, match="got 3 numbers, allowed: 18"):
        policy.select_action([1, 2, 3], {"agent": "agent_0"})
    with pytest.raises(ValueError, match="agent_0, agent_1, agent_2"):
        policy.select_action([0.0] * 18, {})


TOGETHER: dict[str, dict[str, Any]] = {
    "commnet": {"buffer_size": 4},
    "mfq": SMALL_REPLAY,
    "dcg": SMALL_REPLAY,
}


@pytest.mark.parametrize("algorithm", TOGETHER)
def test_agents_that_act_together_are_asked_together(train: Train, algorithm: str) -> None:
    from xuance_worker.policy import TrainedPolicy

    policy = TrainedPolicy(
        train(make_config(algorithm=algorithm, hyperparameters=TOGETHER[algorithm], **SPREAD)).last_checkpoint
    )
    seen = {f"agent_{number}": [0.1 * number] * 18 for number in range(3)}
    actions = policy.select_action(seen, {"episode_start": True})
    assert set(actions) == set(seen)
    with pytest.raises(ValueError, match="they act together"):
        policy.select_action(seen["agent_0"], {"agent": "agent_0"})
    with pytest.raises(ValueError, match="they act together"):
        policy.select_action({"agent_0": seen["agent_0"]}, {})


def test_memory_is_kept_until_an_episode_starts(train: Train) -> None:
    from xuance_worker.policy import TrainedPolicy

    given = {"use_rnn": True, "rnn": "LSTM", "buffer_size": 4, "n_epochs": 1}
    policy = TrainedPolicy(train(make_config(algorithm="mappo", hyperparameters=given, **SPREAD)).last_checkpoint)
    seen = {f"agent_{number}": [1.0 + number] * 18 for number in range(3)}

    def held() -> Any:
        (cells,) = (hidden[1] for hidden in policy._actor._hidden.values())
        return cells.clone()

    policy.select_action(seen, {})
    first = held()
    policy.select_action(seen, {})
    assert not np.array_equal(held(), first)
    policy.select_action(seen, {"episode_start": True})
    assert np.array_equal(held(), first)


def test_masks_are_kept_to(train: Train) -> None:
    from xuance_worker.policy import TrainedPolicy

    given = {"env_family": "classic", "env_id": "tictactoe_v3", "algorithm": "iql", "hyperparameters": SMALL_REPLAY}
    told = train(make_config(**given, **SPREAD))
    assert {tuple(sorted(episode["extra"]["agents"].values())) for episode in told.episodes} <= {(-1, 1), (0, 0)}
    policy = TrainedPolicy(told.last_checkpoint)
    board = np.zeros((3, 3, 2), int).tolist()
    for allowed in range(9):
        mask = [int(field == allowed) for field in range(9)]
        assert policy.select_action(board, {"agent": "player_2", "action_mask": mask}) == allowed


def test_curriculum_swaps_environments_and_keeps_what_was_learned(train: Train) -> None:
    stages = [{"steps": 200, "env_kwargs": {"max_cycles": 10}}, {"steps": 200, "env_kwargs": {"max_cycles": 20}}]
    config = make_config(curriculum=stages, hyperparameters={"buffer_size": 100}, **SPREAD)
    told = train(config)
    assert told.stages == [("simple_spread_v3", 0), ("simple_spread_v3", 200)]
    lengths = {episode["length"] for episode in told.episodes if episode["step"] <= 200}
    assert (lengths, {episode["length"] for episode in told.episodes if episode["step"] > 200}) == ({10}, {20})
    resumed = train(config, resume=train(config, stop_at=300).last_checkpoint)
    assert resumed.stages[0][0] == "simple_spread_v3"
    assert resumed.checkpoints[-1][0] == 400


@pytest.mark.parametrize("algorithm", ["drqn", "mfq"])
def test_episodes_end_with_their_environment(train: Train, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from xuance_worker import building, runtime

    under_way: list[float] = []

    def forget(agent: Any) -> None:
        building.forget_episodes(agent)
        under_way.append(len(agent.episodes) if algorithm == "drqn" else np.sum(list(agent.actions_mean[0].values())))

    monkeypatch.setattr(runtime, "forget_episodes", forget)
    solo = {"env_family": "gymnasium", "env_id": "CartPole-v1", "batch_size": 4} if algorithm == "drqn" else {}
    stages = [{"steps": 30}, {"steps": 370}]
    told = train(make_config(algorithm=algorithm, curriculum=stages, hyperparameters=SMALL_REPLAY, **solo, **SPREAD))
    assert under_way == [0]
    assert told.learner_names()


@pytest.mark.parametrize("mode", ["single", "grid"])
def test_frames_are_shown(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    from mosaic.fastlane import discover
    from mosaic.fastlane.writer import FastLaneWriter

    lane = tmp_path / "lane"
    seen: set[str] = set()
    publish = FastLaneWriter.publish

    def kept(self: FastLaneWriter, *args: Any, **kwargs: Any) -> Any:
        seen.update(stream.name for stream in discover(lane))
        return publish(self, *args, **kwargs)

    monkeypatch.setattr(FastLaneWriter, "publish", kept)
    monkeypatch.setenv("MOSAIC_FASTLANE_DIR", str(lane))
    extras = {"fastlane_video_mode": mode, "fastlane_interval_ms": 0, "fastlane_budget": 1}
    train(make_config(hyperparameters={"buffer_size": 100}, extras=extras, **SPREAD))
    assert seen == {"single": {"env-0"}, "grid": {"env-0", "env-1", "grid"}}[mode]
