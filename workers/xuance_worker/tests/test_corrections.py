"""Each correction corrects something: without it, what upstream does is seen to be wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tqdm import tqdm

from conftest import make_config
from xuance_worker import building, corrections, vector
from xuance_worker.plan import make_plan

QMIX = {"algorithm": "qmix", "parallels": 3, "hyperparameters": {"buffer_size": 300}, "max_steps": 7}


def collect(monkeypatch: pytest.MonkeyPatch, without: str | None, **values: Any) -> Any:
    """An agent after two short trainings, one of the corrections left out."""
    if without is not None:
        monkeypatch.setattr(corrections, without, lambda *_: None)
    config = make_config(**values)
    plan = make_plan(config)
    building.prepare_xuance()
    agent = building.build_agent(config, plan, vector.make_vector(config, plan))
    agent.logged = {}
    agent.log_infos = lambda info, _: agent.logged.update(info)
    for _ in range(2):
        agent.train(10)
    agent.train_envs.close()
    return agent


def stored_twice(agent: Any) -> list[int]:
    """Transitions whose observation before the step is the one after it."""
    data, agents = agent.memory.data, agent.agent_keys
    return [
        step
        for step in range(20)
        if all(np.array_equal(data["obs"][a][0, step], data["obs_next"][a][0, step]) for a in agents)
    ]


def test_first_transition_of_each_training_is_stored_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored_twice(collect(monkeypatch, None, **QMIX)) == []


def test_upstream_stores_the_first_transition_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored_twice(collect(monkeypatch, "keep_first_transition", **QMIX)) == [0, 10]


def test_first_transition_of_a_single_agent_is_stored_right(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"algorithm": "dqn", "env_family": "gymnasium", "env_id": "CartPole-v1", "parallels": 2}
    same = []
    for without in (None, "keep_first_transition"):
        memory = collect(monkeypatch, without, **given).memory
        before, after = memory.observations[0, :20], memory.next_observations[0, :20]
        same.append([step for step in range(20) if np.array_equal(before[step], after[step])])
    assert same == [[], [0, 10]]


def misplaced_states(agent: Any) -> int:
    """States stored that are not what that environment's agents saw together."""
    data = agent.memory.data
    joint = np.concatenate([data["obs"][name] for name in agent.agent_keys], axis=-1)
    return int((~np.isclose(data["state"], joint, atol=1e-5).all(-1))[:, :20].sum())


def test_each_environment_keeps_its_own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    assert misplaced_states(collect(monkeypatch, None, **QMIX)) == 0


def test_upstream_overwrites_all_states_at_the_end_of_an_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    assert misplaced_states(collect(monkeypatch, "keep_states_apart", **QMIX)) > 0


COMA = {"algorithm": "coma", "parallels": 2, "hyperparameters": {"buffer_size": 40, "n_epochs": 1}}


def test_coma_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collect(monkeypatch, None, **COMA).learner.iterations > 0


def test_upstream_cannot_build_coma(monkeypatch: pytest.MonkeyPatch) -> None:
    from xuance.torch.learners import IAC_Learner

    with monkeypatch.context() as patched:
        patched.setattr(IAC_Learner, "__init__", corrections.uncorrected(IAC_Learner.__init__))
        with pytest.raises(TypeError, match="delta"):
            collect(patched, "allow_missing_huber_delta", **COMA)


def test_coma_explores_no_less_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = {**COMA, "total_timesteps": 40}
    agent = collect(monkeypatch, None, **brief)
    assert agent.egreedy == agent.end_greedy
    assert collect(monkeypatch, "keep_probabilities_positive", **brief).egreedy < 0


# In QMIX, the mixing network's activation hides the size of the wrong targets.
@pytest.mark.parametrize("algorithm", ["iql", "vdn"])
def test_masked_actions_are_worth_nothing_in_targets(monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    game = {"env_family": "classic", "env_id": "tictactoe_v3", "algorithm": algorithm, "parallels": 2}
    often = {"start_training": 10, "training_frequency": 2, "buffer_size": 100}
    losses = []
    for without in (None, "look_ahead_with_next_mask"):
        logged = collect(monkeypatch, without, hyperparameters=often, batch_size=32, **game).logged
        losses.append(max(value for name, value in logged.items() if "loss" in name.lower()))
    assert losses[0] < 100
    assert losses[1] > 1e15


@pytest.mark.parametrize(
    ("algorithm", "upstream"), [("qmix", 3.0), ("vdn", 3.0), ("iql", 1.0), ("dqn", 3.0), ("td3", 3.0)]
)
def test_exploration_takes_as_long_as_asked(monkeypatch: pytest.MonkeyPatch, algorithm: str, upstream: float) -> None:
    env_id = {"dqn": "CartPole-v1", "td3": "Pendulum-v1"}.get(algorithm)
    given = {"env_family": "gymnasium", "env_id": env_id} if env_id else {}
    speeds = []
    for without in (None, "explore_as_long_as_asked"):
        agent = collect(monkeypatch, without, algorithm=algorithm, parallels=3, total_timesteps=3_000, **given)
        speeds.append(agent.delta_noise if algorithm == "td3" else agent.delta_egreedy)
    assert speeds[1] / speeds[0] == pytest.approx(upstream)


@pytest.mark.parametrize("algorithm", ["perdqn", "noisydqn", "drqn"])
def test_schedules_that_go_step_by_step_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    agent = collect(monkeypatch, None, algorithm=algorithm, parallels=2, **CARTPOLE)
    length = agent.config.decay_step_noise if algorithm == "noisydqn" else agent.config.decay_step_greedy
    first, last = ("start_noise", "end_noise") if algorithm == "noisydqn" else ("start_greedy", "end_greedy")
    per_step = agent.delta_noise if algorithm == "noisydqn" else agent.delta_egreedy
    assert per_step * length / 2 == pytest.approx(getattr(agent.config, first) - getattr(agent.config, last))


CARTPOLE: dict[str, Any] = {"env_family": "gymnasium", "env_id": "CartPole-v1"}
PRIORITIZED = {"buffer_size": 100, "start_training": 10, "training_frequency": 2}


def test_beta_grows_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"algorithm": "perdqn", "parallels": 2, "total_timesteps": 80, "hyperparameters": PRIORITIZED}
    betas = []
    for without in (None, "anneal_beta_over_the_budget"):
        agent = collect(monkeypatch, without, batch_size=8, **given, **CARTPOLE)
        betas.append(agent.PER_beta)
    # At its last update, of 40 steps; upstream has raised it since, which the next update undoes.
    assert betas[0] == pytest.approx(0.4 + 0.6 * 38 / 80 + 0.6 / 10)
    assert betas[1] > 1


def test_prioritized_replay_tells_what_it_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"algorithm": "perdqn", "parallels": 2, "hyperparameters": PRIORITIZED, "batch_size": 8, **CARTPOLE}
    assert any("loss" in name.lower() for name in collect(monkeypatch, None, **given).logged)
    upstream = collect(monkeypatch, "anneal_beta_over_the_budget", **given).logged
    assert not any("loss" in name.lower() for name in upstream)


def kept_steps(agent: Any) -> list[int]:
    """Of each environment: the steps in its finished episodes and in that under way."""
    kept = [len(episode.reward) for episode in agent.memory.memory]
    return [sum(kept) + sum(len(episode.reward) for episode in getattr(agent, "episodes", []))]


def test_drqn_goes_on_within_its_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"algorithm": "drqn", "parallels": 2, "hyperparameters": {"buffer_size": 100, "start_training": 1_000}}
    assert kept_steps(collect(monkeypatch, None, **given, **CARTPOLE)) == [2 * 2 * 10]
    assert kept_steps(collect(monkeypatch, "go_on_within_episodes", **given, **CARTPOLE))[0] < 2 * 2 * 10


def test_drqn_waits_for_an_episode_to_learn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    often = {"buffer_size": 100, "start_training": 0, "training_frequency": 2}
    given = {"algorithm": "drqn", "parallels": 2, "hyperparameters": often, **CARTPOLE}
    collect(monkeypatch, None, **given)
    with pytest.raises(ValueError, match="cannot be empty"):
        collect(monkeypatch, "go_on_within_episodes", **given)


def test_dcg_explores(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"algorithm": "dcg", "parallels": 2, "total_timesteps": 10_000, "hyperparameters": {"buffer_size": 100}}
    assert 0.9 < collect(monkeypatch, None, **given).e_greedy < 1
    assert collect(monkeypatch, "explore_from_the_start", **given).e_greedy is None


def test_slices_are_added_where_their_index_says() -> None:
    messages = torch.arange(24.0).reshape(2, 4, 3)
    sums = corrections.scatter_add(messages, torch.tensor([0, 2, 2, 0]), dim=1, dim_size=3)
    assert torch.equal(sums[:, 0], messages[:, 0] + messages[:, 3])
    assert torch.equal(sums[:, 1], torch.zeros(2, 3))
    assert torch.equal(sums[:, 2], messages[:, 1] + messages[:, 2])


def test_recurrent_training_needs_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    recurrent = {"use_rnn": True, "buffer_size": 4, "n_epochs": 1}
    given = {"algorithm": "ippo", "parallels": 2, "max_steps": 5, "hyperparameters": recurrent}
    assert collect(monkeypatch, None, **given).learner.iterations > 0
    monkeypatch.delattr(tqdm, "last_print_n")
    with pytest.raises(AttributeError, match="last_print_n"):
        collect(monkeypatch, "let_bars_be_off", **given)


def test_unverified_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "version", lambda name: "1.5.0")
    with pytest.raises(corrections.UnverifiedRelease, match=r"got release 1\.5\.0, allowed: 1\.4\.4"):
        corrections.require_verified_release()


def test_correction_is_put_in_once() -> None:
    from xuance.torch.learners import IAC_Learner

    building.prepare_xuance()
    once = IAC_Learner.__init__
    building.prepare_xuance()
    assert IAC_Learner.__init__ is once


def test_on_policy_agents_are_left_alone() -> None:
    agent = SimpleNamespace(on_policy=True, store_experience=print)
    corrections.keep_states_apart(agent)
    assert agent.store_experience is print
