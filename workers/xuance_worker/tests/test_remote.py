"""Environments in processes of their own: the same training, and nothing of theirs on the worker's stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from conftest import Train, make_config
from xuance_worker.environments import make_game
from xuance_worker.remote import EnvironmentDied, Making, RemoteGame

SPREAD: dict[str, Any] = {
    "algorithm": "qmix",
    "parallels": 2,
    "total_timesteps": 200,
    "report_every": 100,
    "batch_size": 16,
    "hyperparameters": {"buffer_size": 500, "start_training": 50, "training_frequency": 10},
}
# Says something on stdout in every way that there is, whenever it can.
CHATTY = """
import os, sys
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Chatty(CartPoleEnv):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.say("made")

    def say(self, what):
        print("chatty", what, "in", os.getpid())
        sys.stdout.flush()
        os.write(1, b"chatty by descriptor\\n")

    def reset(self, **arguments):
        self.say("reset")
        return super().reset(**arguments)

gymnasium.register("Chatty-v0", Chatty, max_episode_steps=20)
"""


def test_training_is_the_same_as_in_one_process(train: Train) -> None:
    ends = []
    for vectorize in ("dummy", "subprocess"):
        told = train(make_config(vectorize=vectorize, seed=3, **SPREAD))
        weights = load_file(told.last_checkpoint / "policy.safetensors")
        ends.append((told.episodes, {name: array.tobytes() for name, array in weights.items()}))
    assert ends[0] == ends[1]


@pytest.mark.slow
def test_resumed_equals_uninterrupted(train: Train) -> None:
    config = make_config(vectorize="subprocess", seed=3, **SPREAD)
    whole = train(config)
    resumed = train(config, resume=train(config, stop_at=100).last_checkpoint)
    first, second = (load_file(told.last_checkpoint / "policy.safetensors") for told in (whole, resumed))
    assert {name: array.tobytes() for name, array in first.items()} == {
        name: array.tobytes() for name, array in second.items()
    }


@pytest.mark.parametrize("vectorize", [pytest.param("dummy", marks=pytest.mark.slow), "subprocess"])
def test_stdout_is_telemetry_whatever_is_printed(tmp_path: Path, vectorize: str) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    config = {
        "run_id": "chatty",
        "algorithm": "ppo",
        "env_family": "gymnasium",
        "env_id": "chatty:Chatty-v0",
        "vectorize": vectorize,
        "parallels": 2,
        "total_timesteps": 200,
        "hyperparameters": {"horizon_size": 32},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "xuance_worker.cli", "--config", "config.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_completed")
    assert "chatty by descriptor" in done.stderr
    speakers = {line.split()[-1] for line in done.stderr.splitlines() if line.startswith("chatty reset")}
    assert len(speakers) == (2 if vectorize == "subprocess" else 1)


def test_death_of_an_environment_is_told() -> None:
    game = RemoteGame(Making(make_config(), 1, "", {}, False, None)).meet()
    game.reset(1)
    assert game._process.pid is not None
    os.kill(game._process.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentDied, match=r"process of environment 1 has ended \(exit code -9\)"):
        game.step(dict.fromkeys(game.agents, 0))
    game.close()


def test_remote_game_looks_like_the_game() -> None:
    config = make_config(algorithm="iql", env_family="classic", env_id="tictactoe_v3")
    here = make_game(config)
    there = RemoteGame(Making(config, 0, "", {}, False, None)).meet()
    for game in (here, there):
        game.reset(1)
        game.step({"player_1": 4, "player_2": 0})
    assert there.observation_spaces == here.observation_spaces
    assert there.action_spaces == here.action_spaces
    assert {agent: mask.tolist() for agent, mask in there.masks().items()} == {
        agent: mask.tolist() for agent, mask in here.masks().items()
    }
    assert there.state().tolist() == here.state().tolist()
    there.close()
    assert not there._process.is_alive()
