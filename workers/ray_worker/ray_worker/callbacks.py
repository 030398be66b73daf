"""What RLlib calls while it plays: episodes are put together here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

EPISODES = "mosaic_episodes"


class RunCallbacks(RLlibCallback):
    """An instance lives in every process that plays."""

    def __init__(self) -> None:
        super().__init__()
        # Episodes come in chunks, one for each sampling; by id: what the earlier chunks of an episode held.
        self._begun: dict[str, dict[str, Any]] = {}

    def on_sample_end(self, *, env_runner: Any, metrics_logger: Any, samples: Sequence[Any], **_: Any) -> None:
        for chunk in samples:
            record = self._begun.pop(chunk.id_, None) or {"return": 0.0, "length": 0, "agents": {}, "policies": {}}
            _add(record, chunk)
            if not chunk.is_done:
                self._begun[chunk.id_] = record
                continue
            metrics_logger.log_value(EPISODES, {**record, "worker": env_runner.worker_index}, reduce="item_series")


def _add(record: dict[str, Any], chunk: Any) -> None:
    record["length"] += len(chunk)
    if not isinstance(chunk, MultiAgentEpisode):
        record["return"] += float(chunk.get_return())
        return
    for agent, part in chunk.agent_episodes.items():
        gained = float(part.get_return())
        record["return"] += gained
        record["agents"][agent] = record["agents"].get(agent, 0.0) + gained
        record["policies"][agent] = part.module_id
