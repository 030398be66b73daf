"""The two JSON-lines services of a worker: `--interactive` steps an environment, `--serve` answers action requests.

Requests come on stdin, one JSON object a line, tagged by `cmd`; each gets one answer, tagged by `type`. What cannot be
done is answered with `{"type": "error", "error": ...}` and the session goes on.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import msgspec

from mosaic.worker.worker import DrawingSession, Policy, Session

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class RequestError(Exception):
    """A request that cannot be answered."""


def _field(request: Mapping[str, Any], name: str) -> Any:
    if name not in request:
        raise RequestError(f"{request['cmd']}: field {name!r} is missing")
    return request[name]


def run_interactive(session: Session, requests: BinaryIO, descriptor: int) -> None:
    """`reset`, `step` and `stop`, until `stop` or the end of the input. `"render": true` asks for a frame as well."""

    def with_frame(request: Mapping[str, Any], answer: dict[str, Any]) -> Mapping[str, Any]:
        if not request.get("render"):
            return answer
        if not isinstance(session, DrawingSession):
            raise RequestError("render: the sessions of this worker draw no frames")
        return {**answer, "frame": _frame(session.render())}

    def reset(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_frame(request, {"type": "reset", **session.reset(request.get("seed"))})

    def step(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_frame(request, {"type": "step", **session.step(_field(request, "action"))})

    try:
        _answer_lines({"reset": reset, "step": step}, requests, descriptor)
    finally:
        session.close()


def _frame(picture: Any) -> Mapping[str, Any]:
    """A picture (height x width x 3, uint8, any layout) as JSON can carry it."""
    return {"shape": list(picture.shape), "rgb8": base64.b64encode(picture.tobytes()).decode()}


def run_policy_server(policy: Policy, requests: BinaryIO, descriptor: int) -> None:
    """`act` with an observation and an info (where masks lie), until `stop` or the end of the input."""

    def act(request: Mapping[str, Any]) -> Mapping[str, Any]:
        action = policy.select_action(_field(request, "observation"), request.get("info", {}))
        return {"type": "action", "action": action}

    _answer_lines({"act": act}, requests, descriptor)


def _answer_lines(handlers: Mapping[str, Handler], requests: BinaryIO, descriptor: int) -> None:
    encoder = msgspec.json.Encoder(enc_hook=_plain)

    def answer(message: Mapping[str, Any]) -> None:
        data = memoryview(encoder.encode(message) + b"\n")
        while data:
            data = data[os.write(descriptor, data) :]

    answer({"type": "ready", "commands": [*handlers, "stop"]})
    for line in requests:
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
            command = request.get("cmd")
            if command == "stop":
                break
            if not isinstance(command, str) or command not in handlers:
                raise RequestError(f"cmd: got {command!r}, allowed: {', '.join([*handlers, 'stop'])}")
            reply = handlers[command](request)
        except (RequestError, msgspec.DecodeError, ValueError, TypeError, AssertionError) as error:
            reply = {"type": "error", "error": str(error) or type(error).__name__}
        answer(reply)
    answer({"type": "stopped"})


def _plain(value: Any) -> Any:
    """NumPy's arrays and scalars, without importing NumPy for those who have none."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise NotImplementedError(f"an answer holds a {type(value).__name__}, which JSON cannot carry")
