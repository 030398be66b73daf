"""How play is shared out among several learner processes: by whole pieces.

RLlib cuts pieces so that all shares are of the same length. Where agents act in turn, a cut leaves some of them with
half a step, which its own connectors then stumble over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ray.rllib.core.learner import training_data
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.minibatch_utils import ShardEpisodesIterator


class WholePieces(ShardEpisodesIterator):
    """Shares of about the same length; learners see as many minibatches each, whatever the difference."""

    def __iter__(self) -> Iterator[list[Any]]:
        pieces = self._episodes
        if len(pieces) < self._num_shards or not isinstance(pieces[0], MultiAgentEpisode):
            yield from super().__iter__()
            return
        shares: list[list[Any]] = [[] for _ in range(self._num_shards)]
        # The longest first, always to whom has least.
        for piece in pieces:
            min(shares, key=lambda share: sum(map(len, share))).append(piece)
        yield from shares


def share_out_whole_pieces() -> None:
    training_data.ShardEpisodesIterator = WholePieces
