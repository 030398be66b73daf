"""`--serve` and `--interactive`, and that serving is quick: it imports neither Ray nor torch."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Told, make_config

Train = Callable[..., Told]


def talk(arguments: list[str], requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(
        [sys.executable, "-m", "ray_worker.cli", *arguments], input=lines, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_checkpoint_is_served_line_by_line(train: Train) -> None:
    config = make_config(environment={"family": "classic", "env_id": "tictactoe_v3"}, training={"total_timesteps": 100})
    checkpoint = train(config).checkpoints[-1][1]
    empty = [[[0, 0]] * 3] * 3
    only = [0, 0, 0, 0, 1, 0, 0, 0, 0]
    seen = {"observation": empty, "action_mask": only}
    ready, taken, inside, refused, stopped = talk(
        ["--serve", str(checkpoint)],
        [
            {"cmd": "act", "observation": seen, "info": {"agent": "player_1"}},
            {"cmd": "act", "observation": empty, "info": {"agent": "player_2", "action_mask": only}},
            {"cmd": "act", "observation": [1, 2], "info": {}},
            {"cmd": "stop"},
        ],
    )
    assert ready["type"] == "ready"
    assert taken == {"type": "action", "action": 4}
    assert inside == {"type": "action", "action": 4}
    assert "allowed: (3, 3, 2)" in refused["error"]
    assert stopped["type"] == "stopped"
    script = (
        "import sys; from ray_worker import RayPolicyConfig, create_ray_actor\n"
        f"actor = create_ray_actor(RayPolicyConfig({str(checkpoint)!r}))\n"
        f"print(actor.select_action({seen!r}, {{'agent': 'player_1'}}), 'ray' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["4", "False", "False"], done.stderr


@pytest.mark.parametrize(
    ("environment", "steps"),
    [
        ({"env_id": "CartPole-v1"}, [{"cmd": "step", "action": 1}, {"cmd": "step", "action": 7}]),
        (
            {"family": "classic", "env_id": "tictactoe_v3"},
            [{"cmd": "step", "action": {"player_1": 0}}, {"cmd": "step", "action": {"player_1": 1}}],
        ),
    ],
)
def test_an_environment_is_stepped_from_outside(
    tmp_path: Path, environment: dict[str, Any], steps: list[dict[str, Any]]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"run_id": "x", "environment": environment, "resources": {"num_workers": 0}}))
    arguments = ["--config", str(path), "--interactive"]
    early, reset, good, bad, _ = talk(
        arguments, [steps[0], {"cmd": "reset", "seed": 3, "render": True}, *steps, {"cmd": "stop"}]
    )[1:]
    assert "reset first" in early["error"]
    assert reset["type"] == "reset"
    height, width, channels = reset["frame"]["shape"]
    assert len(base64.b64decode(reset["frame"]["rgb8"])) == height * width * channels
    assert good["type"] == "step"
    assert "allowed:" in bad["error"]
    if "family" in environment:
        assert reset["agents"] == ["player_1"]
        assert good["agents"] == ["player_2"]
