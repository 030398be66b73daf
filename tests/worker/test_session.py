"""The interactive service: what a request asks for beyond the step itself."""

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mosaic.worker.session import run_interactive


class Plain:
    def reset(self, seed: int | None) -> Mapping[str, Any]:
        return {"observation": seed}

    def step(self, action: Any) -> Mapping[str, Any]:
        return {"observation": action, "reward": 1.0}

    def close(self) -> None:
        pass


class Drawing(Plain):
    def render(self) -> Any:
        return np.full((3, 2, 1), 255, np.uint8).T  # not contiguous


def answers(session: Plain, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    reading, writing = os.pipe()
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run_interactive(session, io.BytesIO(lines.encode()), writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return [json.loads(line) for line in pipe][1:-1]


def test_a_frame_comes_with_the_answer_that_asks_for_it() -> None:
    reset, step = answers(Drawing(), {"cmd": "reset", "seed": 4, "render": True}, {"cmd": "step", "action": 2})
    assert reset == {"type": "reset", "observation": 4, "frame": {"shape": [1, 2, 3], "rgb8": "////////"}}
    assert "frame" not in step


def test_a_session_that_cannot_draw_says_so() -> None:
    (answer,) = answers(Plain(), {"cmd": "reset", "render": True})
    assert answer == {"type": "error", "error": "render: the sessions of this worker draw no frames"}
