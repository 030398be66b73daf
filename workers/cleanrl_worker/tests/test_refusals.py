"""What is refused before anything is started, where it takes no process to see that."""

from typing import Any

import pytest
from cleanrl_worker import families
from cleanrl_worker.runtime import CleanRLWorkerRuntime

from mosaic.worker import ConfigError
from mosaic.worker.config import build_config


def refusal(**given: Any) -> str:
    worker = CleanRLWorkerRuntime()
    with pytest.raises(ConfigError) as caught:
        worker.validate(build_config(worker.config_type, worker.describe(), {"run_id": "test", **given}))
    (error,) = caught.value.errors
    assert "\n" not in error.message
    return error.message


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
    ({"algo": "dqn", "env_id": "LunarLander-v1"}, "env_id", "LunarLander-v2"),
    ({"extras": {"mode": "policy_eval", "track_wandb": True}}, "extras.track_wandb", "nothing is trained"),
    ({"algo": "ppo_atari"}, "env_id", "an environment of atari for ppo_atari, such as BreakoutNoFrameskip-v4"),
    ({"env_id": "Box-v9"}, "env_id", "a registered Gymnasium environment"),
    ({"total_timesteps": 0}, "total_timesteps", ">= 1"),
    ({"seed": -1}, "seed", ">= 0"),
]


@pytest.mark.parametrize(("change", "field", "words"), BAD)
def test_a_bad_config(change: dict[str, Any], field: str, words: str) -> None:
    told = refusal(**change)
    assert told.startswith(f"field '{field}'") and words in told


@pytest.mark.parametrize(
    ("extra", "given", "field"),
    [
        ("atari", {"algo": "ppo_atari", "env_id": "BreakoutNoFrameskip-v4"}, "algo"),
        ("jax", {"algo": "dqn_jax"}, "algo"),
        ("envpool", {"algo": "pqn_atari_envpool", "env_id": "Pong-v5"}, "algo"),
        ("mujoco", {"algo": "td3_continuous_action", "env_id": "Hopper-v4"}, "env_id"),
        ("wandb", {"extras": {"track_wandb": True}}, "extras.track_wandb"),
    ],
)
def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch, extra: str, given: dict[str, Any], field: str) -> None:
    monkeypatch.setitem(families.EXTRA_MODULES, extra, ("no_such_module",))
    told = refusal(**given)
    assert told.startswith(f"field '{field}'") and f"./mosaic worker install cleanrl[{extra}]" in told


@pytest.mark.parametrize("folder", ["/tmp/elsewhere", "../elsewhere"])
def test_files_outside_of_the_run_s_folder(folder: str) -> None:
    assert "allowed: a path within the run's folder" in refusal(extras={"tensorboard_dir": folder})


def test_environments_that_cannot_be_dealt_out() -> None:
    pytest.importorskip("ale_py", reason="needs extra atari")
    told = refusal(algo="ppo_atari_lstm", env_id="BreakoutNoFrameskip-v4", extras={"algo_params": {"num_envs": 6}})
    assert "'extras.algo_params.num_envs': got 6 (integer), allowed: a multiple of num_minibatches (4)" in told


def test_what_whole_vectors_cannot_do() -> None:
    pytest.importorskip("envpool", reason="needs extra envpool")
    games = {"algo": "ppo_atari_envpool", "env_id": "Pong-v5"}
    assert "'extras.capture_video': got true (boolean), allowed: false" in refusal(
        **games, extras={"capture_video": True}
    )
    stages = [{"env_id": "Pong-v5"}, {"env_id": "Breakout-v5"}]
    assert "come as whole vectors" in refusal(**games, extras={"curriculum_schedule": stages})
