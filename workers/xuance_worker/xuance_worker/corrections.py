"""Faults of XuanCe that are corrected from outside, one function each, verified for the releases named here."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any

VERIFIED = ("1.4.4",)
MISTAKEN_LEARNERS = ("IQL_Learner", "VDN_Learner", "QMIX_Learner")


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
    build = learner.build_training_data

    def with_next_mask(*args: Any, **kwargs: Any) -> Any:
        data = build(*args, **kwargs)
        data["avail_actions"] = data["avail_actions_next"]
        return data

    learner.build_training_data = with_next_mask


def explore_as_long_as_asked(agent: Any) -> None:
    """Most, but not all, algorithms let epsilon and noise fall as many times too fast as there are environments.

    They divide the schedule's length by the number of environments, but go along it by the steps of all of them.
    """
    for name, start, end, length in (
        ("delta_egreedy", "start_greedy", "end_greedy", "decay_step_greedy"),
        ("delta_noise", "start_noise", "end_noise", "running_steps"),
    ):
        if getattr(agent, name, None) is not None:
            setattr(agent, name, (getattr(agent, start) - getattr(agent, end)) / getattr(agent.config, length))


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


def uncorrected(function: Any) -> Any:
    """Upstream's own function, whether it has been corrected or not."""
    return getattr(function, "__wrapped__", function)
