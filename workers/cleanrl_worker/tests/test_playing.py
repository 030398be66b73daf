"""What was trained plays: evaluation, interactive session, policy server. What cannot be used is refused."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import messages, only_checkpoint, run, start

TRAINED = {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 512, "seed": 1}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    run(folder, TRAINED)
    return only_checkpoint(folder)


def evaluation(checkpoint: Path, **extras: Any) -> dict[str, Any]:
    return {**TRAINED, "extras": {"mode": "policy_eval", "policy_path": str(checkpoint), **extras}}


def session(arguments: list[str], requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "cleanrl_worker.cli", *arguments],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_evaluation_tells_every_episode_and_a_summary(checkpoint: Path, tmp_path: Path) -> None:
    done = run(tmp_path, evaluation(checkpoint, eval_episodes=5, eval_batch_size=2, eval_repeats=2, eval_gamma=0.9))
    episodes = messages(done, "episode")
    assert len(episodes) == 10
    assert [message["index"] for message in messages(done, "stage")] == [1, 2]
    written = json.loads((tmp_path / "runs" / "test" / "eval_summary.json").read_text())
    returns = [episode["return"] for episode in written["per_episode"]]
    assert returns == [message["episode_return"] for message in episodes]
    assert written["return"]["mean"] == pytest.approx(sum(returns) / 10)
    low, high = written["return"]["ci95"]
    assert low <= written["return"]["mean"] <= high
    # CartPole pays 1 a step: the discounted return of n steps is known.
    for episode in written["per_episode"]:
        assert episode["return"] == episode["length"]
        assert episode["discounted_return"] == pytest.approx((1 - 0.9 ** episode["length"]) / 0.1)
    assert len(written["repeats"]) == 2 and written["checkpoint_step"] == 512


def test_an_evaluation_records_videos_of_its_first_environment(checkpoint: Path, tmp_path: Path) -> None:
    done = run(tmp_path, evaluation(checkpoint, eval_episodes=2, eval_batch_size=2, eval_repeats=2, capture_video=True))
    first = [message for message in messages(done, "episode") if message.get("env", 0) == 0]
    folder = tmp_path / "runs" / "test"
    videos = sorted((folder / "videos").glob("seed-*.mp4"))
    assert len(videos) >= len(first) == 2 and {video.name.split("-")[1] for video in videos} == {"1", "1001"}
    assert all(video.stat().st_size > 1000 for video in videos)
    artifacts = json.loads((folder / "analytics.json").read_text())["artifacts"]
    assert {"evaluation", "video"} <= {artifact["kind"] for artifact in artifacts}


def test_an_interactive_session_with_the_policy(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**TRAINED, "extras": {"policy_path": str(checkpoint)}}))
    requests = [
        {"cmd": "step", "action": 0},
        {"cmd": "reset", "seed": 3, "render": True},
        {"cmd": "step", "action": 1},
        {"cmd": "step", "action": None},
        {"cmd": "step", "action": 7},
    ]
    ready, early, reset, ours, theirs, wrong, stopped = session(["--config", str(path), "--interactive"], requests)
    assert (ready["type"], stopped["type"]) == ("ready", "stopped")
    assert "send reset" in early["error"]
    height, width, depth = reset["frame"]["shape"]
    assert len(base64.b64decode(reset["frame"]["rgb8"])) == height * width * depth
    assert ours["action"] == 1 and ours["reward"] == 1.0
    assert theirs["action"] in (0, 1)
    assert "allowed: Discrete(2)" in wrong["error"]


def test_the_policy_server_respects_masks_and_refuses_nonsense(checkpoint: Path) -> None:
    observation = [0.0, 0.1, 0.02, -0.1]
    requests = [
        {"cmd": "act", "observation": observation},
        *({"cmd": "act", "observation": observation, "info": {"action_mask": mask}} for mask in ([1, 0], [0, 1])),
        {"cmd": "act", "observation": [1.0]},
    ]
    _, free, first, second, wrong, _ = session(["--serve", str(checkpoint)], requests)
    assert free["action"] in (0, 1)
    assert (first["action"], second["action"]) == (0, 1)
    assert "shape (1,)" in wrong["error"]


@pytest.mark.parametrize("harm", ["truncated", "unreadable", "foreign", "other environment"])
def test_checkpoints_that_cannot_be_used(checkpoint: Path, tmp_path: Path, harm: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    config = evaluation(copy)
    if harm == "truncated":
        (copy / "ppo.cleanrl_model").write_bytes(b"short")
        words = "its hash differs"
    elif harm == "unreadable":
        (copy / "card.json").write_bytes(b"\xff\x00")
        words = "the card cannot be read"
    elif harm == "foreign":
        card = json.loads((copy / "card.json").read_text())
        (copy / "card.json").write_text(json.dumps({**card, "worker": "tabular"}))
        words = "this one is of 'tabular'"
    else:
        config["env_id"] = "Acrobot-v1"
        words = "this one is of 'CartPole-v1'"
    done = start(tmp_path, config)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == "", "nothing was started"
