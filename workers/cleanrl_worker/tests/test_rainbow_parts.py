"""What Rainbow's script is built from, against plain arithmetic: no training."""

import numpy as np
import pytest
import torch
from cleanrl_worker.algorithms.rainbow_atari import NoisyLinear, PrioritizedReplay, SumTree, project

STACK, N_STEP, GAMMA = 4, 3, 0.9


class Played:
    """Episodes of random length, ended or cut off, put into a replay buffer; every frame is its own number."""

    def __init__(self, size: int, steps: int) -> None:
        self.random = np.random.default_rng(0)
        self.replay = PrioritizedReplay(size, (1,), STACK, N_STEP, GAMMA, alpha=0.5, eps=1e-6)
        self.steps: list[tuple[list[int], float, bool, bool, list[int]]] = []
        self.at: dict[int, int] = {}
        self._frame, self._stack = 0, [0] * STACK
        self._start = True
        for _ in range(steps):
            self._step()

    def _step(self) -> None:
        reward, chance = float(self.random.normal()), self.random.random()
        terminal, cut = chance < 0.08, 0.08 <= chance < 0.16
        self.at[self.replay.pos] = len(self.steps)
        self.replay.add(np.array([self._stack[-1]], dtype=np.uint8), 0, reward, terminal, self._start)
        self._frame = (self._frame + 1) % 256
        after = [*self._stack[1:], self._frame]
        self.steps.append((self._stack, reward, terminal, cut, after))
        if cut:
            self.replay.cut_off(np.array([self._frame], dtype=np.uint8))
        self._start = terminal or cut
        if self._start:
            self._frame = (self._frame + 1) % 256
        self._stack = [self._frame] * STACK if self._start else after

    def expected(self, index: int) -> tuple[list[int], float, float, list[int]]:
        """Stack, n-step reward, discount and what follows, from the history of all steps."""
        first = self.at[index]
        window = []
        for step in self.steps[first : first + N_STEP]:
            window.append(step)
            if step[2] or step[3]:
                break
        total = sum(GAMMA**number * step[1] for number, step in enumerate(window))
        return window[0][0], total, 0.0 if window[-1][2] else GAMMA ** len(window), window[-1][4]


@pytest.mark.parametrize(("size", "steps"), [(64, 40), (64, 500), (100, 1000)])
def test_what_is_sampled_is_what_was_played(size: int, steps: int) -> None:
    played = Played(size, steps)
    replay = played.replay
    sampleable = np.flatnonzero(replay.tree[np.arange(size)] > 0)
    assert len(sampleable) > size / 3
    assert sampleable.tolist() == np.flatnonzero(replay.usable).tolist()
    assert replay.tree.total == pytest.approx(replay.tree[sampleable].sum())
    rewards, discounts, after = replay.ahead(sampleable)
    stacks, following = replay.stacked(sampleable)[:, :, 0], replay.stacked(after)[:, :, 0]
    for row, index in enumerate(sampleable):
        stack, total, discount, next_stack = played.expected(index)
        assert stacks[row].tolist() == stack
        assert rewards[row] == pytest.approx(total, abs=1e-5)
        assert discounts[row] == pytest.approx(discount)
        if discount:
            assert following[row].tolist() == next_stack


def test_a_buffer_is_the_same_after_it_was_kept_and_put_back() -> None:
    one, other = Played(64, 300).replay, PrioritizedReplay(64, (1,), STACK, N_STEP, GAMMA, alpha=0.5, eps=1e-6)
    drawn = one.sample(8, beta=0.4)["indices"]
    one.update(drawn, np.linspace(0.1, 3.0, 8))
    other.restore(one.capture())
    batches = []
    for replay in (one, other):
        np.random.seed(5)
        for start in (True, False, False, False):
            replay.add(np.array([7], dtype=np.uint8), 1, 0.5, False, start)
        batches.append(replay.sample(16, beta=0.4))
    for name, array in batches[0].items():
        np.testing.assert_array_equal(array, batches[1][name])


def test_an_episode_that_broke_off_does_not_run_into_the_next_one() -> None:
    replay = PrioritizedReplay(64, (1,), STACK, N_STEP, GAMMA, alpha=0.5, eps=1e-6)
    for number, start in enumerate([True, False, False, True, False, False, False]):
        replay.add(np.array([number], dtype=np.uint8), 0, 1.0, False, start)
    assert np.flatnonzero(replay.tree[np.arange(3)] > 0).tolist() == [0, 1], "the last step before the break is none"
    rewards, discounts, after = replay.ahead(np.array([0]))
    assert rewards[0] == pytest.approx(1 + GAMMA)
    assert after[0] == 2
    assert discounts[0] == pytest.approx(GAMMA**2)


def test_priorities_are_drawn_in_proportion() -> None:
    tree = SumTree(6)
    tree[np.arange(6)] = [0, 1, 0, 3, 6, 0]
    drawn = tree.draw(np.arange(0, 10, 0.5))
    assert np.bincount(drawn, minlength=6).tolist() == [0, 2, 0, 6, 12, 0]


def test_a_projection_keeps_mass_and_mean() -> None:
    atoms = torch.linspace(-10, 10, 51)
    probabilities = torch.softmax(torch.randn(3, 51, generator=torch.Generator().manual_seed(0)), dim=1)
    rewards, discounts = torch.tensor([0.0, 1.0, 0.3]), torch.tensor([0.0, 0.5, 0.8])
    put_back = project(probabilities, rewards, discounts, atoms)
    torch.testing.assert_close(put_back.sum(1), torch.ones(3))
    expected = rewards + discounts * (probabilities * atoms).sum(1)
    torch.testing.assert_close((put_back * atoms).sum(1), expected, atol=1e-5, rtol=0)


def test_noise_is_only_there_in_training() -> None:
    layer, x = NoisyLinear(4, 3, sigma=0.5), torch.ones(1, 4)
    before = layer(x)
    layer.reset_noise()
    assert not torch.equal(before, layer(x))
    layer.eval()
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight_mu, layer.bias_mu))
