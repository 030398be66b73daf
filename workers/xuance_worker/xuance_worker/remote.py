"""A game in a process of its own, so that several are stepped at once. The child imports neither XuanCe nor torch.

The parent keeps all that a checkpoint needs (which episode, which actions), so nothing about saving is different.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from mosaic.fastlane import Settings
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.environments import make_game
from xuance_worker.games import Actions, Game, Mask, Turn

GOODBYE_S = 10.0


class EnvironmentDied(Exception):
    """A process that stepped an environment has ended by itself."""


@dataclass(frozen=True)
class Making:
    """What the child needs in order to make its game."""

    config: XuanCeWorkerConfig
    slot: int
    env_id: str
    env_kwargs: Mapping[str, Any]
    continuous: bool
    fastlane: Settings | None


class RemoteGame(Game):
    """Looks like the game that the child plays. Made in two steps, so that several children start at once."""

    def __init__(self, making: Making) -> None:
        self._slot = making.slot
        # Not forked: the parent has torch and its threads.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, making), name=f"environment-{making.slot}", daemon=True
        )
        self._process.start()
        theirs.close()
        self._begun = False

    def meet(self) -> RemoteGame:
        """Wait until the child has made its game."""
        self.__dict__.update(self._receive())
        self.can_act = {}
        return self

    @property
    def render_mode(self) -> str | None:
        return None

    def reset(self, seed: int | None) -> Turn:
        self._send("reset", seed)
        return self._take_turn()

    def begin(self, actions: Actions) -> None:
        self._send("step", actions)
        self._begun = True

    def step(self, actions: Actions) -> Turn:
        if not self._begun:
            self._send("step", actions)
        self._begun = False
        return self._take_turn()

    def masks(self) -> dict[str, Mask]:
        return self._masks

    def state(self) -> Any:
        return self._state

    def render(self) -> Any:
        raise NotImplementedError("an environment in another process is watched through FastLane")

    def close(self) -> None:
        if self._process.is_alive():
            self._pipe.close()  # its end is what the child waits for
            self._process.join(GOODBYE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _take_turn(self) -> Turn:
        turn: Turn
        turn, self.can_act, self._masks, self._state = self._receive()
        self.current = turn.observations
        return turn

    def _send(self, what: str, content: Any) -> None:
        try:
            self._pipe.send((what, content))
        except BrokenPipeError:
            raise self._died() from None

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None

    def _died(self) -> EnvironmentDied:
        self._process.join()
        return EnvironmentDied(
            f"the process of environment {self._slot} has ended (exit code {self._process.exitcode}); "
            "what it said last is in the log"
        )


def _serve(pipe: Connection, making: Making) -> None:
    """The child: plays until the parent hangs up. Signals are for the parent, which saves what there is first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The parent's telemetry is the only thing that belongs on stdout; it has arranged that, this makes sure of it.
    os.dup2(2, 1)
    game = make_game(
        making.config,
        env_id=making.env_id,
        env_kwargs=making.env_kwargs,
        continuous=making.continuous,
        fastlane=making.fastlane,
        slot=making.slot,
    )
    shown = ("agents", "observation_spaces", "action_spaces", "masked", "state_size", "limit", "eyes")
    pipe.send({name: getattr(game, name) for name in shown})
    try:
        while True:
            what, content = pipe.recv()
            turn = game.reset(content) if what == "reset" else game.step(content)
            turn.infos = {}  # nobody looks at them, and not all can be sent
            pipe.send((turn, game.can_act, game.masks() if game.masked else {}, game.state()))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        game.close()
