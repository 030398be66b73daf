"""Scripts really trained, stopped and resumed, each in a process of its own."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import messages, run, start
from safetensors.numpy import load_file

from mosaic.worker.checkpoints import verify

# name -> environment, steps, hyperparameters
TINY: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", 512, {"num_steps": 64}),
    "ppo_upstream": ("CartPole-v1", 512, {"num_steps": 64}),
    "dqn": ("CartPole-v1", 200, {"learning_starts": 50, "buffer_size": 150}),
}


def config(name: str, **extras: Any) -> dict[str, Any]:
    environment, steps, params = TINY[name]
    return {
        "algo": name,
        "env_id": environment,
        "total_timesteps": steps,
        "seed": 3,
        "extras": {"algo_params": params, "save_replay_buffer": True, **extras},
    }


@pytest.mark.parametrize("name", TINY)
def test_a_resumed_run_ends_with_the_very_same_weights(name: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", config(name, checkpoint_interval=TINY[name][1] // 2))
    folder = tmp_path / "whole" / "runs" / "test"
    half, last = (folder / message["path"] for message in messages(whole, "checkpoint"))
    assert verify(half).algorithm == name
    assert not np.array_equal(*(next(iter(weights(path).values())) for path in (half, last))), "nothing was learned"

    more = config(name, mode="resume_training", checkpoint_path=str(half))
    resumed = run(tmp_path / "resumed", more)
    (end,) = messages(resumed, "checkpoint")
    assert end["step"] == verify(last).step
    ours = weights(tmp_path / "resumed" / "runs" / "test" / end["path"])
    assert {key: array.tobytes() for key, array in ours.items()} == {
        key: array.tobytes() for key, array in weights(last).items()
    }
    # The same episodes, too, in the second half.
    tail = [(m["step"], m["episode_return"]) for m in messages(whole, "episode") if m["step"] > verify(half).step]
    assert [(m["step"], m["episode_return"]) for m in messages(resumed, "episode")] == tail
    assert list((folder / "tensorboard").iterdir())


def weights(checkpoint: Path) -> dict[str, np.ndarray[Any, Any]]:
    (file,) = checkpoint.glob("*.cleanrl_model")
    return load_file(file)


def test_metrics_mirror_the_scripts_scalars(tmp_path: Path) -> None:
    done = run(tmp_path, config("ppo_upstream"))
    names = {name for message in messages(done, "metric") for name in message["values"]}
    assert {"losses/value_loss", "charts/SPS", "charts/learning_rate", "charts/episodic_return"} <= names
    summary = messages(done, "run_completed")[0]["summary"]
    assert summary == {"steps": 512, "episodes": len(messages(done, "episode"))}


def test_a_script_that_fails_is_a_failed_run(tmp_path: Path) -> None:
    # More minibatches than steps: upstream's own arithmetic fails.
    done = start(tmp_path, {**config("ppo_upstream"), "extras": {"algo_params": {"num_minibatches": 10_000}}})
    assert done.returncode == 1
    (failed,) = messages(done, "run_failed")
    assert "ChildFailed: " in failed["error"] and "cleanrl/ppo.py" in failed["traceback"]


BAD = [
    ({"algo": "pppo"}, "algo", "one of ppo, "),
    ({"env_id": "CartPole-v9"}, "env_id", "CartPole"),
    ({"algo": "dqn", "env_id": "Pendulum-v1"}, "env_id", "discrete actions for dqn"),
    ({"algo": "sac_continuous_action"}, "env_id", "continuous actions for sac_continuous_action"),
    ({"extras": {"algo_params": {"learning_rat": 1}}}, "extras.algo_params.learning_rat", "learning_rate"),
    ({"extras": {"algo_params": {"num_envs": "many"}}}, "extras.algo_params.num_envs", "integer"),
    ({"extras": {"no_such": 1}}, "extras.no_such", "unknown"),
    ({"extras": {"mode": "resume_training"}}, "extras.checkpoint_path", "resume_training"),
    (
        {"extras": {"mode": "resume_training", "checkpoint_path": "/nowhere"}},
        "extras.checkpoint_path",
        "not a complete checkpoint",
    ),
]


@pytest.mark.parametrize(("change", "field", "words"), BAD)
def test_bad_configs_are_refused_with_one_line(tmp_path: Path, change: dict[str, Any], field: str, words: str) -> None:
    done = start(tmp_path, change, "--dry-run", "--json")
    assert done.returncode == 2
    (error,) = msgspec.json.decode(done.stdout)["errors"]
    assert error["field"] == field and words in error["message"], error
    assert "\n" not in error["message"] and "Traceback" not in done.stderr
