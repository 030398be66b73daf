"""PQN's targets, and its memory: the parts that a wrong training would not show."""

import pytest
import torch
from cleanrl_worker.algorithms.pqn import q_lambda_targets


def test_targets_mix_what_follows_with_what_came_later() -> None:
    rewards = torch.tensor([[1.0], [2.0], [3.0]])
    following = torch.tensor([[10.0], [20.0], [30.0]])
    never = torch.zeros(3, 1, dtype=torch.bool)
    last = 3 + 0.5 * 30
    middle = 2 + 0.5 * (0.75 * 20 + 0.25 * last)
    first = 1 + 0.5 * (0.75 * 10 + 0.25 * middle)
    targets = q_lambda_targets(rewards, never, following, gamma=0.5, q_lambda=0.25)
    torch.testing.assert_close(targets, torch.tensor([[first], [middle], [last]]))


def test_nothing_comes_through_the_end_of_an_episode() -> None:
    rewards, following = torch.ones(2, 2), torch.tensor([[0.0, 7.0], [100.0, 100.0]])
    ends = torch.tensor([[True, True], [False, False]])
    targets = q_lambda_targets(rewards, ends, following, gamma=0.5, q_lambda=0.9)
    # The first ended for good, the second was cut off in a state worth 7.
    torch.testing.assert_close(targets[0], torch.tensor([1.0, 1 + 0.5 * 7]))


def test_a_sequence_is_worth_what_its_steps_are_one_by_one() -> None:
    pytest.importorskip("envpool", reason="needs extra envpool")
    import gymnasium
    from cleanrl_worker.algorithms.pqn_atari_envpool_lstm import QNetwork

    class Games:
        single_action_space = gymnasium.spaces.Discrete(4)

    torch.manual_seed(0)
    network, steps, games = QNetwork(Games()), 3, 2
    pictures = torch.randint(0, 256, (steps, games, 1, 84, 84), dtype=torch.uint8)
    done = torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    state, one_by_one = network.initial_state(games), []
    with torch.no_grad():
        for picture, ended in zip(pictures, done, strict=True):
            values, state = network(picture, state, ended)
            one_by_one.append(values)
        together, after = network(pictures.flatten(0, 1), network.initial_state(games), done)
        afresh, _ = network(pictures[1], network.initial_state(games), done[1])
    torch.testing.assert_close(together, torch.cat(one_by_one))
    torch.testing.assert_close(after, state)
    # The second game's episode ended before its second step; the first one's did not, so it remembers.
    torch.testing.assert_close(one_by_one[1][1], afresh[1])
    assert not torch.allclose(one_by_one[1][0], afresh[0])
