"""XuanCe's agent for a plan. The only place that imports XuanCe's algorithms."""

from __future__ import annotations

import os
from argparse import Namespace
from types import ModuleType
from typing import Any

import torch
from xuance.torch.agents import REGISTRY_Agents
from xuance.torch.agents.base import agent as solo_base
from xuance.torch.agents.base import agents_marl as team_base

from xuance_worker import corrections, vector
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.plan import Plan


class _NoWriter:
    """In the place of TensorBoard's writer, which XuanCe always makes: what is logged goes to our own reporter."""

    def __init__(self, *_: Any) -> None:
        pass

    def close(self) -> None:
        pass


def prepare_xuance() -> None:
    """Once in a process, before an agent is built."""
    corrections.require_verified_release()
    corrections.allow_missing_huber_delta()
    corrections.let_bars_be_off()
    corrections.stand_in_for_torch_scatter()
    for module in (solo_base, team_base):
        _leave_no_files(module)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def _leave_no_files(module: ModuleType) -> None:
    for name, replacement in (("SummaryWriter", _NoWriter), ("create_directory", lambda path: None)):
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__} has no {name} any more: nothing to replace")
        setattr(module, name, replacement)


def settings_of(config: XuanCeWorkerConfig, plan: Plan) -> Namespace:
    """The settings as XuanCe's agents take them."""
    ours = {
        "agent": plan.entry.agent,
        "env_name": config.env_family,
        "env_id": config.env_id,
        "env_seed": config.seed,
        "continuous_action": plan.kind == "box",
        "use_parameter_sharing": plan.sharing,
        "use_actions_mask": plan.masked,
        "seed": config.seed,
        "parallels": config.parallels,
        "running_steps": config.total_timesteps,  # the learning-rate schedule ends with the budget
        "device": config.device,
        "distributed_training": False,
        "logger": "tensorboard",
        "render": False,
        "log_dir": "",
        "model_dir": "",
    }
    return Namespace(**{**plan.settings, **ours})


def build_agent(config: XuanCeWorkerConfig, plan: Plan, envs: Any) -> Any:
    agent = REGISTRY_Agents[plan.entry.agent](settings_of(config, plan), envs)
    corrections.explore_as_long_as_asked(agent)
    if plan.entry.is_multi_agent:
        corrections.explore_from_the_start(agent)
        corrections.keep_probabilities_positive(agent)
        corrections.keep_states_apart(agent)
        corrections.look_ahead_with_next_mask(agent)
    else:
        corrections.anneal_beta_over_the_budget(agent)
        corrections.go_on_within_episodes(agent)
    if not vector.is_started(envs):
        envs.reset()
    return agent


def forget_episodes(agent: Any) -> None:
    """Once its environments are others: what it carries from step to step belongs to episodes that are no more."""
    if hasattr(agent, "episodes"):
        agent.episodes, agent.rnn_hidden = [], None
    for means in getattr(agent, "actions_mean", ()):
        means.update({name: mean * 0 for name, mean in means.items()})
