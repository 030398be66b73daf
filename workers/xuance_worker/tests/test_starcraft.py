"""SMAC's adapter, on a stand-in with SMAC's functions: StarCraft II itself is not to be had where tests run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import Train, make_config
from mosaic.worker import ConfigError
from xuance_worker.environments import make_game

SMAC = '''
import numpy as np

class StarCraft2Env:
    """Two against two: who stands for three steps is dead, and the battle won when both are."""

    def __init__(self, map_name="2m", step_mul=8):
        self.limit = {"2m": 10}[map_name]
        self._seed = None

    def get_env_info(self):
        return {"n_agents": 2, "n_actions": 4, "obs_shape": 5, "state_shape": 7, "episode_limit": self.limit}

    def reset(self):
        assert isinstance(self._seed, int)
        self.lives = np.array([3, 4])
        self.steps = 0

    def step(self, actions):
        for agent, action in enumerate(actions):
            assert self.get_avail_actions()[agent][action], "not allowed"
        self.lives = np.maximum(self.lives - 1, 0)
        self.steps += 1
        over = not self.lives.any()
        return 1.5, over, {"battle_won": over} if not over else {}

    def get_obs(self):
        return [np.full(5, life, np.float32) for life in self.lives]

    def get_state(self):
        return np.arange(7)

    def get_avail_actions(self):
        return [[0, 1, 1, 1] if life else [1, 0, 0, 0] for life in self.lives]

    def close(self):
        pass
'''


@pytest.fixture
def smac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "stand_in" / "smac" / "env"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(SMAC)
    monkeypatch.syspath_prepend(str(package.parents[1]))
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    yield package
    for name in ("smac", "smac.env"):
        sys.modules.pop(name, None)


BATTLE = {"algorithm": "qmix", "env_family": "smac", "env_id": "2m", "parallels": 2}


def test_the_dead_do_nothing_and_the_team_is_rewarded(smac: Path) -> None:
    game = make_game(make_config(**BATTLE))
    turn = game.reset(1)
    for _ in range(3):
        assert game.masks()["agent_0"].tolist() == [False, True, True, True]
        turn = game.step({"agent_0": 1, "agent_1": 2})
    assert game.can_act == {"agent_0": False, "agent_1": True}
    assert game.masks()["agent_0"].tolist() == [True, False, False, False]
    turn = game.step({"agent_0": 0, "agent_1": 3})
    assert turn.rewards == {"agent_0": 1.5, "agent_1": 1.5}
    assert turn.terminated == {"agent_0": True, "agent_1": True}
    assert np.array_equal(game.state(), np.arange(7))


@pytest.mark.parametrize("algorithm", ["qmix", "mappo"])
def test_a_team_trains_in_battles(smac: Path, train: Train, algorithm: str) -> None:
    small = {"buffer_size": 40} | ({"start_training": 20, "training_frequency": 4} if algorithm == "qmix" else {})
    told = train(make_config(**{**BATTLE, "algorithm": algorithm}, hyperparameters=small, total_timesteps=80))
    assert {episode["length"] for episode in told.episodes} == {4}
    assert told.last_checkpoint.is_dir()


@pytest.mark.parametrize(
    ("path", "env_id", "reason"),
    [
        (None, "2m", "SC2PATH to name its folder (it is not set)"),
        ("/nowhere", "2m", "it is /nowhere, which is no folder"),
        ("", "9m", "one of SMAC's maps, such as 3m"),
    ],
)
def test_what_is_missing_is_told(
    smac: Path, monkeypatch: pytest.MonkeyPatch, path: str | None, env_id: str, reason: str
) -> None:
    if path is None:
        monkeypatch.delenv("SC2PATH")
    elif path:
        monkeypatch.setenv("SC2PATH", path)
    with pytest.raises(ConfigError) as raised:
        make_config(**{**BATTLE, "env_id": env_id})
    (error,) = raised.value.errors
    assert reason in error.message
    assert "\n" not in error.message


def test_starcraft_without_smac_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="needs SMAC in the worker's environment"):
        make_config(**BATTLE)
