"""Scripts really trained, resumed and evaluated, each in a process of its own.

A telling part of the whole matrix, which is `./mosaic bench cleanrl-matrix`.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers import messages, run, start
from safetensors.numpy import load_file

from mosaic.worker.checkpoints import verify


class Tiny(NamedTuple):
    env_id: str
    steps: int
    params: dict[str, Any]
    exact: bool = True  # whether its environments can be kept in a checkpoint


OFF_POLICY = {"learning_starts": 50, "buffer_size": 150, "batch_size": 32}
# One of each kind: ours and upstream's, gymnasium's and old gym's, on and off policy, values and continuous actions,
# vectors, grids and images.
TINY = {
    "ppo": Tiny("CartPole-v1", 512, {"num_steps": 64}),
    "ppo_upstream": Tiny("CartPole-v1", 512, {"num_steps": 64}),
    "pqn": Tiny("MiniGrid-Empty-5x5-v0", 512, {"num_envs": 4}, exact=False),
    "dqn": Tiny("FrozenLake-v1", 200, OFF_POLICY),
    "c51": Tiny("CartPole-v1", 200, OFF_POLICY),
    "sac_continuous_action": Tiny("Pendulum-v1", 200, OFF_POLICY),
    "dqn_atari": Tiny("BreakoutNoFrameskip-v4", 120, OFF_POLICY, exact=False),
}


def config(name: str, **extras: Any) -> dict[str, Any]:
    tiny = TINY[name]
    return {
        "algo": name,
        "env_id": tiny.env_id,
        "total_timesteps": tiny.steps,
        "seed": 3,
        "extras": {"algo_params": tiny.params, "save_replay_buffer": True, **extras},
    }


@pytest.mark.parametrize("name", TINY)
def test_trained_resumed_from_the_middle_and_evaluated(name: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", config(name, checkpoint_interval=TINY[name].steps // 2))
    folder = tmp_path / "whole" / "runs" / "test"
    half, last = (folder / message["path"] for message in messages(whole, "checkpoint"))
    assert verify(half).algorithm == name
    assert as_bytes(half) != as_bytes(last), "nothing was learned"
    assert list((folder / "tensorboard").iterdir())

    resumed = run(tmp_path / "resumed", config(name, mode="resume_training", checkpoint_path=str(half)))
    (end,) = messages(resumed, "checkpoint")
    assert end["step"] == verify(last).step
    ours = tmp_path / "resumed" / "runs" / "test" / end["path"]
    assert all(message["step"] > verify(half).step for message in messages(resumed, "episode"))
    if TINY[name].exact:
        assert as_bytes(ours) == as_bytes(last), "the resumed run did not end with the very same weights"
        # The same episodes, too, in the second half.
        tail = [(m["step"], m["episode_return"]) for m in messages(whole, "episode") if m["step"] > verify(half).step]
        assert [(m["step"], m["episode_return"]) for m in messages(resumed, "episode")] == tail
    else:
        assert as_bytes(ours).keys() == as_bytes(last).keys() and as_bytes(ours) != as_bytes(half)

    extras = {"mode": "policy_eval", "policy_path": str(last), "eval_episodes": 2, "deterministic": False}
    run(tmp_path / "played", {**config(name), "extras": extras})
    played = json.loads((tmp_path / "played" / "runs" / "test" / "eval_summary.json").read_text())
    assert played["checkpoint_step"] == end["step"] and len(played["per_episode"]) == 2


def as_bytes(checkpoint: Path) -> dict[str, bytes]:
    (file,) = checkpoint.glob("*.cleanrl_model")
    return {key: array.tobytes() for key, array in load_file(file).items()}


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


def test_weights_and_biases_gets_the_scalars_too(tmp_path: Path) -> None:
    """There is no account here, and often no network: it is logged into the run's folder."""
    done = run(tmp_path, config("ppo", track_wandb=True, wandb_project="tests"), WANDB_BASE_URL="http://127.0.0.1:9")
    (told,) = messages(done, "log")
    assert "127.0.0.1 cannot be reached (Connection refused): logging to" in told["message"]
    (record,) = (tmp_path / "runs" / "test" / "wandb").glob("offline-run-*/*.wandb")
    assert b"losses/value_loss" in record.read_bytes()
    artifacts = json.loads((tmp_path / "runs" / "test" / "analytics.json").read_text())["artifacts"]
    assert f"wandb/{record.parent.name}" in [artifact["path"] for artifact in artifacts]


def test_a_dry_run_tells_the_exact_command(tmp_path: Path) -> None:
    done = start(tmp_path, config("dqn"), "--dry-run", "--json")
    python, *command = json.loads(done.stdout)["command"]
    assert Path(python).samefile(sys.executable)
    assert command[:3] == ["-m", "cleanrl_worker.launcher", "cleanrl.dqn"]
    assert " ".join(command[3:]) == (
        "--exp-name dqn --env-id FrozenLake-v1 --total-timesteps 200 --seed 3 --cuda False --capture-video False "
        "--learning-starts 50 --buffer-size 150 --batch-size 32"
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "config.json"], "nothing was run"


@pytest.mark.parametrize("change", [{"env_id": "Pendulum-v1"}, {"algo": "pppo"}])
def test_a_bad_config_is_refused_with_one_line_and_nothing_is_started(tmp_path: Path, change: dict[str, Any]) -> None:
    done = start(tmp_path, {**config("dqn"), **change})
    assert done.returncode == 2 and done.stdout == ""
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("config: "))
    assert next(iter(change.values())) in line and "allowed: " in line and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "config.json"]
