"""The table and its three update rules, and the state that makes a resumed run continue exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from tabular_worker.config import TabularParams

Table = NDArray[np.float64]


class Learner:
    """Chooses actions epsilon-greedily from a table of action values and learns from every transition."""

    def __init__(
        self, algorithm: str, params: TabularParams, states: int, actions: int, budget: int, seed: int
    ) -> None:
        self.algorithm = algorithm
        self.params = params
        self.table: Table = np.zeros((states, actions))
        self.random = np.random.default_rng(seed)
        self._exploration_steps = max(1.0, params.exploration_fraction * budget)

    def epsilon(self, step: int) -> float:
        done = min(1.0, step / self._exploration_steps)
        return self.params.epsilon_start + done * (self.params.epsilon_end - self.params.epsilon_start)

    def act(self, state: int, epsilon: float) -> int:
        if self.random.random() < epsilon:
            return int(self.random.integers(self.table.shape[1]))
        return self.greedy(state)

    def greedy(self, state: int) -> int:
        """The best action; ties are broken by chance, so that an empty table does not mean `always left`."""
        row = self.table[state]
        best = np.flatnonzero(row == row.max())
        return int(best[0] if len(best) == 1 else self.random.choice(best))

    def learn(
        self, state: int, action: int, reward: float, following: int, chosen: int, end: bool, eps: float
    ) -> float:
        """Update from one transition, `chosen` being the action that will be taken next; the answer is the error."""
        target = reward if end else reward + self.params.discount * self._value(following, chosen, eps)
        error = float(target - self.table[state, action])
        self.table[state, action] += self.params.learning_rate * error
        return error

    def _value(self, state: int, chosen: int, epsilon: float) -> float:
        row = self.table[state]
        match self.algorithm:
            case "sarsa":
                return float(row[chosen])
            case "expected_sarsa":
                return float((1 - epsilon) * row.max() + epsilon * row.mean())
            case _:
                return float(row.max())


class Progress(msgspec.Struct):
    """Where a run stands between two steps."""

    step: int
    episode: int
    episode_return: float
    episode_length: int
    state: int
    next_action: int
    recent_returns: list[float] = []


class Snapshot(msgspec.Struct):
    """Everything but the table: written beside it, so that a resumed run takes the very same steps."""

    progress: Progress
    learner_random: dict[str, Any]
    env_random: dict[str, Any]
    env_state: int
    env_elapsed: int


def write_checkpoint(folder: Path, learner: Learner, env: gymnasium.Env[Any, Any], progress: Progress) -> None:
    np.save(folder / "table.npy", learner.table, allow_pickle=False)
    base: Any = env.unwrapped
    snapshot = Snapshot(
        progress=progress,
        learner_random=_plain_state(learner.random),
        env_random=_plain_state(base.np_random),
        env_state=int(base.s),
        env_elapsed=int(getattr(_time_limit(env), "_elapsed_steps", 0)),
    )
    (folder / "snapshot.json").write_bytes(msgspec.json.encode(snapshot))


def read_checkpoint(folder: Path, learner: Learner, env: gymnasium.Env[Any, Any]) -> Progress:
    """Put learner and environment back where the checkpoint was taken. The environment must have been reset once."""
    learner.table = read_table(folder)
    snapshot = msgspec.json.decode((folder / "snapshot.json").read_bytes(), type=Snapshot)
    learner.random.bit_generator.state = _random_state(snapshot.learner_random)
    base: Any = env.unwrapped
    base.np_random.bit_generator.state = _random_state(snapshot.env_random)
    base.s = snapshot.env_state
    limit: Any = _time_limit(env)
    if limit is not None:
        limit._elapsed_steps = snapshot.env_elapsed
    return snapshot.progress


def read_table(folder: Path) -> Table:
    table: Table = np.load(folder / "table.npy", allow_pickle=False)
    return table


def _time_limit(env: Any) -> gymnasium.wrappers.TimeLimit[Any, Any] | None:
    while not isinstance(env, gymnasium.wrappers.TimeLimit):
        if env is env.unwrapped:
            return None
        env = env.env
    return env


def _plain_state(random: np.random.Generator) -> dict[str, Any]:
    """PCG64's state holds 128-bit integers: as text, because not every JSON reader takes them."""
    state = dict(random.bit_generator.state)
    return {**state, "state": {name: str(value) for name, value in state["state"].items()}}


def _random_state(plain: dict[str, Any]) -> dict[str, Any]:
    return {**plain, "state": {name: int(value) for name, value in plain["state"].items()}}
