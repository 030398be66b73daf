"""Faults of XuanCe that are corrected from outside, one function each, verified for the releases named here."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from importlib.metadata import version
from types import ModuleType
from typing import Any

import torch
from tqdm import tqdm
from xuance.torch.agents.qlearning_family import drqn_agent

VERIFIED = ("1.4.4",)
MISTAKEN_LEARNERS = ("IQL_Learner", "VDN_Learner", "QMIX_Learner")
STEP_BY_STEP = ("PerDQN_Agent", "NoisyDQN_Agent", "DRQN_Agent")


class UnverifiedRelease(Exception):
    """A XuanCe for which nobody has looked whether these corrections still correct anything."""


def require_verified_release() -> None:
    found = version("xuance")
    if found not in VERIFIED:
        allowed = " or ".join(VERIFIED)
        raise UnverifiedRelease(
            f"xuance: got release {found}, allowed: {allowed} (for which the worker's corrections were verified); "
            f"install xuance=={VERIFIED[-1]}"
        )


def keep_first_transition(envs: Any) -> None:
    """XuanCe's vector environments write each step's observations into the buffers that they handed out before.

    `train` starts with those very buffers, so that the first transition of each call is stored with the observation
    after the step in place of the one before. Fresh buffers for each step keep the old ones as they were.
    """
    step_async = envs.step_async

    def with_fresh_buffers(actions: Any) -> None:
        for name in ("buf_obs", "buf_state", "buf_avail_actions"):
            if hasattr(envs, name):
                setattr(envs, name, getattr(envs, name).copy())
        step_async(actions)

    envs.step_async = with_fresh_buffers


def keep_states_apart(agent: Any) -> None:
    """With several environments, off-policy training puts the state of one that was reset in the place of all states.

    (`state = info[i]["reset_state"]` where `state[i]` is meant.) The next transition of every environment is stored
    with that one state. The vector environment knows better: its states before the step are stored instead.
    """
    if agent.on_policy or not hasattr(agent.train_envs, "buf_state"):
        return
    store = agent.store_experience

    def with_own_states(*args: Any, **kwargs: Any) -> None:
        if "state" in kwargs and agent.use_global_state:
            kwargs["state"] = agent.train_envs.states_before
        store(*args, **kwargs)

    agent.store_experience = with_own_states


def remember_states(envs: Any) -> None:
    """What `keep_states_apart` needs of a vector environment: its states as they were before the step."""
    step_async = envs.step_async

    def with_states_kept(actions: Any) -> None:
        envs.states_before = list(envs.buf_state)
        step_async(actions)

    envs.step_async = with_states_kept


def look_ahead_with_next_mask(agent: Any) -> None:
    """With action masks, double Q-learning picks the next step's action by this step's mask in IQL, VDN and QMIX.

    An action that is not allowed then is worth -1e10, and that becomes a target. These learners use this step's mask
    for nothing else, so they are given the next one's in its place.
    """
    learner = agent.learner
    if agent.on_policy or not agent.use_actions_mask or type(learner).__name__ not in MISTAKEN_LEARNERS:
        return
    if agent.use_rnn:  # whose learners take the masks of whole episodes, and look ahead in these
        return
    build = learner.build_training_data

    def with_next_mask(*args: Any, **kwargs: Any) -> Any:
        data = build(*args, **kwargs)
        data["avail_actions"] = data["avail_actions_next"]
        return data

    learner.build_training_data = with_next_mask


def explore_as_long_as_asked(agent: Any) -> None:
    """Most, but not all, algorithms let epsilon and noise fall as many times too fast as there are environments.

    They divide the schedule's length by the number of environments, but go along it by the steps of all of them.
    Those named in STEP_BY_STEP do go along it by steps of the vector environment.
    """
    if type(agent).__name__ in STEP_BY_STEP:
        return
    for name, start, end, length in (
        ("delta_egreedy", "start_greedy", "end_greedy", "decay_step_greedy"),
        ("delta_noise", "start_noise", "end_noise", "running_steps"),
    ):
        if getattr(agent, name, None) is not None:
            setattr(agent, name, (getattr(agent, start) - getattr(agent, end)) / getattr(agent.config, length))


def explore_from_the_start(agent: Any) -> None:
    """DCG never sets the epsilon with which it begins, and so never explores."""
    if type(agent).__name__ == "DCG_Agents":
        agent.e_greedy = agent.start_greedy


def keep_probabilities_positive(agent: Any) -> None:
    """COMA mixes chance into its policy, and its share ends up to one step's fall below where it should end.

    Where that is below 0, probabilities may be negative, and COMA fails.
    """
    if type(agent).__name__ != "COMA_Agents":
        return
    learn, update = agent.train_epochs, agent.learner.update

    def within_bounds(*args: Any, **kwargs: Any) -> Any:
        told = learn(*args, **kwargs)
        agent.egreedy = max(agent.egreedy, agent.end_greedy)
        return told

    agent.train_epochs = within_bounds
    agent.learner.update = lambda sample, epsilon: update(sample, max(epsilon, agent.end_greedy))


def anneal_beta_over_the_budget(agent: Any) -> None:
    """Prioritized replay raises its beta to 1 within each call of `train`, and then goes on beyond.

    It also keeps to itself what its learner tells. Its priorities are kept in the precision of their sums, as a
    checkpoint has them.
    """
    if not hasattr(agent, "PER_beta"):
        return
    learn, update, prioritize = agent.train_epochs, agent.learner.update, agent.memory.update_priorities
    told: dict[str, Any] = {}

    def with_beta(*args: Any, **kwargs: Any) -> Any:
        done = min(1.0, agent.current_step / agent.config.running_steps)
        agent.PER_beta = agent.PER_beta0 + (1 - agent.PER_beta0) * done
        return learn(*args, **kwargs) | told

    def and_tell(**samples: Any) -> Any:
        errors, learned = update(**samples)
        told.update(learned)
        return errors, learned

    agent.train_epochs, agent.learner.update = with_beta, and_tell
    agent.memory.update_priorities = lambda chosen, errors: prioritize(chosen, errors.astype(float))


def go_on_within_episodes(agent: Any) -> None:
    """DRQN's `train` forgets what its memory held and throws away the episodes under way in the environments.

    Here both are kept from one call to the next, in `agent.episodes` and `agent.rnn_hidden`, and no gradients with
    them. It also learned before there was any finished episode to learn from.
    """
    if type(agent).__name__ != "DRQN_Agent":
        return
    agent.episodes, agent.rnn_hidden = [], None
    train, learn, act, blank = agent.train, agent.train_epochs, agent.get_actions, agent.policy.init_hidden
    store, kind = agent.memory.store, drqn_agent.EpisodeBuffer
    ended: list[int] = []
    under_way: Iterator[Any] = iter(())

    def next_episode() -> Any:
        if ended:
            agent.episodes[ended[0]] = kind()
            return agent.episodes[ended.pop()]
        begun = next(under_way, None)
        if begun is None:
            agent.episodes.append(begun := kind())
        else:
            begun.obs.pop()  # the last one, which `train` adds again
        return begun

    def store_ended(episode: Any) -> None:
        ended.append(next(index for index, one in enumerate(agent.episodes) if one is episode))
        store(episode)

    def remembered(_count: int) -> Any:
        agent.policy.init_hidden = blank  # which learning asks for too
        return agent.rnn_hidden

    def train_on(steps: int) -> Any:
        nonlocal under_way
        under_way = iter(list(agent.episodes))
        if agent.rnn_hidden is not None:
            agent.policy.init_hidden = remembered
        drqn_agent.EpisodeBuffer = next_episode
        try:
            return train(steps)
        finally:
            drqn_agent.EpisodeBuffer = kind
            agent.policy.init_hidden = blank

    agent.train, agent.memory.store = train_on, store_ended
    agent.get_actions = torch.no_grad()(act)
    agent.train_epochs = lambda *args, **kwargs: learn(*args, **kwargs) if agent.memory.size else {}


def allow_missing_huber_delta() -> None:
    """COMA sets its Huber loss's delta to None because it never uses that loss; torch refuses to make such a loss."""
    from xuance.torch.learners import COMA_Learner, IAC_Learner

    if uncorrected(IAC_Learner.__init__) is not IAC_Learner.__init__:
        return
    build = IAC_Learner.__init__

    @functools.wraps(build)
    def with_a_delta(self: Any, config: Any, *args: Any) -> None:
        if isinstance(self, COMA_Learner):
            config.huber_delta = 1.0
        build(self, config, *args)

    IAC_Learner.__init__ = with_a_delta


def let_bars_be_off() -> None:
    """Recurrent training reads an attribute of its progress bar that one that is off does not have."""
    tqdm.last_print_n = 0


def stand_in_for_torch_scatter() -> None:
    """DCG needs one function of a package that has to be compiled for each release of torch."""
    if "torch_scatter" in sys.modules:
        return
    module = ModuleType("torch_scatter")
    module.scatter_add = scatter_add  # type: ignore[attr-defined]
    sys.modules["torch_scatter"] = module


def scatter_add(src: torch.Tensor, index: torch.Tensor, dim: int, dim_size: int) -> torch.Tensor:
    """Sums of the slices along `dim` that have the same index."""
    shape = list(src.shape)
    shape[dim] = dim_size
    return torch.zeros(shape, dtype=src.dtype, device=src.device).index_add(dim, index, src)


def uncorrected(function: Any) -> Any:
    """Upstream's own function, whether it has been corrected or not."""
    return getattr(function, "__wrapped__", function)
