"""Following a run live: rows in order, none missing, none twice, across restarts of the daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from mosaic.client.errors import NoDaemon
from mosaic.client.transport import Transport

# How long to go on trying when the daemon is away, and how often.
RETRY_INTERVAL_S = 0.3


@dataclass(frozen=True)
class Update:
    """Something new about a run: rows, or its state, or that the connection to the daemon was lost or is back."""

    kind: Literal["rows", "run", "lost", "back", "idle"]
    rows: list[dict[str, Any]] = field(default_factory=list)
    run: dict[str, Any] = field(default_factory=dict)


def follow(
    transport: Transport,
    run_id: str,
    *,
    since: int = 0,
    kinds: str | None = None,
    patience: float | None = None,
    tick: float | None = None,
) -> Iterator[Update]:
    """Updates until the run has ended and its last row was seen.

    When the daemon goes away, this waits for the next one (at most `patience` seconds) and goes on after the last row.
    With `tick`, an idle update comes at least that often, so that a caller can redraw.
    """
    lost_at: float | None = None
    while True:
        try:
            with transport.websocket(f"/runs/{run_id}/follow", {"since": since, "kinds": kinds}) as connection:
                if lost_at is not None:
                    lost_at = None
                    yield Update("back")
                ended = False
                for message in _messages(connection, tick):
                    if message is None:
                        yield Update("idle")
                        continue
                    if rows := message.get("rows"):
                        since = rows[-1]["seq"]
                        yield Update("rows", rows=rows)
                    if view := message.get("run"):
                        ended = view["exit"] is not None and view["ended"] is not None
                        yield Update("run", run=view)
                if ended:
                    return
        except NoDaemon:
            pass
        now = time.monotonic()
        if lost_at is None:
            lost_at = now
            yield Update("lost")
        if patience is not None and now - lost_at > patience:
            raise NoDaemon("the daemon went away and did not come back")
        time.sleep(RETRY_INTERVAL_S)
        if tick is not None:
            yield Update("idle")


def _messages(connection: Any, tick: float | None) -> Iterator[dict[str, Any] | None]:
    """Messages until the connection closes, however it closes; None after `tick` seconds of silence."""
    from websockets.exceptions import ConnectionClosed

    while True:
        try:
            text = connection.recv(timeout=tick)
        except TimeoutError:
            yield None
            continue
        except ConnectionClosed:
            return
        yield json.loads(text)
