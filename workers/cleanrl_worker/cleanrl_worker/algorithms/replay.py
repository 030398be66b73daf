"""The replay buffer of our own Atari scripts: every frame is kept once."""

from __future__ import annotations

import numpy as np


class FrameReplay:
    """Steps of one environment in a ring. Stacks of frames and n-step returns are made when they are sampled."""

    ARRAYS = ("frames", "actions", "rewards", "terminals", "starts", "cuts")

    def __init__(self, size, frame_shape, stack, n_step, gamma):
        self.buffer_size, self.stack, self.n_step, self.gamma = size, stack, n_step, gamma
        self.frames = np.zeros((size, *frame_shape), dtype=np.uint8)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.terminals = np.zeros(size, dtype=bool)
        self.starts = np.zeros(size, dtype=bool)  # the first step of an episode
        self.cuts = np.zeros(size, dtype=bool)  # no step at all: only the last frame of an episode that was cut off
        self.clear()

    def clear(self):
        self.pos, self.full = 0, False
        self.usable = np.zeros(self.buffer_size, dtype=bool)

    def size(self):
        return self.buffer_size if self.full else self.pos

    def add(self, frame, action, reward, terminal, start):
        self._put(frame, action, reward, terminal, start, cut=False)

    def cut_off(self, frame):
        """The episode was ended from outside; here is what it would have gone on from."""
        self._put(frame, 0, 0.0, terminal=False, start=False, cut=True)

    def _put(self, frame, action, reward, terminal, start, cut):
        i, size = self.pos, self.buffer_size
        if start and (self.full or i > 0) and not self.terminals[i - 1]:
            # The episode before broke off (a run that was resumed): its last step led nowhere that is known.
            self.cuts[i - 1] = True
        self.frames[i], self.actions[i], self.rewards[i] = frame, action, reward
        self.terminals[i], self.starts[i], self.cuts[i] = terminal, start, cut
        # A step can be learned from once the n steps after it are known, and no longer when the frames before it are
        # about to be overwritten.
        ready = (i - self.n_step) % size
        known = (self.full or i >= self.n_step) and not self.cuts[ready]
        self._offer(ready, known, (i + np.arange(self.stack + 1)) % size)
        self.pos = (i + 1) % size
        self.full = self.full or self.pos == 0

    def _offer(self, ready, known, oldest):
        """From now on the step `ready` may be sampled, if `known`, and those at `oldest` may not."""
        self.usable[ready] = known
        self.usable[oldest] = False

    def sample(self, batch_size):
        """A batch of steps, all as likely."""
        indices = np.random.choice(np.flatnonzero(self.usable), batch_size)
        return self.batch(indices)

    def batch(self, indices):
        rewards, discounts, after = self.ahead(indices)
        return {
            "observations": self.stacked(indices),
            "actions": self.actions[indices],
            "rewards": rewards,
            "discounts": discounts,
            "next_observations": self.stacked(after),
        }

    def ahead(self, indices):
        """Of n steps: the discounted rewards, the discount of what follows (0 after an end), and where it follows."""
        rewards = np.zeros(len(indices), dtype=np.float32)
        discounts = np.ones(len(indices), dtype=np.float32)
        after = indices.copy()
        for _step in range(self.n_step):
            going_on = (discounts > 0) & ~self.cuts[after]
            rewards += np.where(going_on, discounts * self.rewards[after], 0.0)
            discounts = np.where(going_on, discounts * self.gamma * ~self.terminals[after], discounts)
            after = np.where(going_on & (discounts > 0), (after + 1) % self.buffer_size, after)
        return rewards, discounts.astype(np.float32), after

    def stacked(self, indices):
        """Each frame with those before it; before an episode's first frame there is only that frame again."""
        chosen = [indices]
        for _frame in range(self.stack - 1):
            last = chosen[-1]
            chosen.append(np.where(self.starts[last], last, (last - 1) % self.buffer_size))
        return self.frames[np.stack(chosen[::-1], axis=1)]

    def capture(self):
        """What a checkpoint keeps of it."""
        arrays = {name: getattr(self, name)[: self.size()].copy() for name in (*self.ARRAYS, "usable")}
        return arrays | {"position": np.array([self.pos, self.full])}

    def restore(self, arrays):
        held = len(arrays["frames"])
        if held > self.buffer_size or (arrays["position"][1] and held != self.buffer_size):
            raise ValueError(f"the kept replay buffer holds {held} steps; buffer_size is {self.buffer_size}")
        for name in (*self.ARRAYS, "usable"):
            getattr(self, name)[:held] = arrays[name]
        self.pos, self.full = int(arrays["position"][0]), bool(arrays["position"][1])
