"""The algorithms on offer: which script each is, and what it can take. Hyperparameters are read from the scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cleanrl_worker.families import ActionSpace, Observation, PolicyKind
from cleanrl_worker.scripts import Script, read_script

CLASSIC = ("gymnasium", "minigrid", "babyai", "mujoco", "dm_control")


@dataclass(frozen=True)
class AlgorithmEntry:
    module: str
    title: str
    family: str
    action_space: ActionSpace
    policy: PolicyKind
    observation: Observation = "vector"
    env_families: tuple[str, ...] = CLASSIC
    extras: tuple[str, ...] = ()
    default_env: str = "CartPole-v1"

    @property
    def script(self) -> Script:
        return read_script(self.module)

    @property
    def off_policy(self) -> bool:
        return "buffer_size" in self.script.flags


def _continuous(module: str, title: str, family: str, policy: PolicyKind) -> AlgorithmEntry:
    return AlgorithmEntry(f"cleanrl.{module}", title, family, "continuous", policy, default_env="Pendulum-v1")


def _discrete(module: str, title: str, family: str, policy: PolicyKind) -> AlgorithmEntry:
    return AlgorithmEntry(f"cleanrl.{module}", title, family, "discrete", policy)


def _jax(module: str, title: str, family: str, action_space: ActionSpace, env: str) -> AlgorithmEntry:
    policy: PolicyKind = "flax_values" if action_space == "discrete" else "flax_actor"
    return AlgorithmEntry(f"cleanrl.{module}", title, family, action_space, policy, extras=("jax",), default_env=env)


def _atari(module: str, title: str, family: str, policy: PolicyKind, *extras: str) -> AlgorithmEntry:
    return AlgorithmEntry(
        f"cleanrl.{module}",
        title,
        family,
        "discrete",
        policy,
        observation="image",
        env_families=("atari",),
        extras=("atari", *extras),
        default_env="BreakoutNoFrameskip-v4",
    )


def _whole(
    module: str, title: str, family: str, environments: str, env: str, *extras: str, policy: PolicyKind = "actor_critic"
) -> AlgorithmEntry:
    """Scripts whose environments come as whole vectors. `environments`: their family, and the extra that brings it."""
    return AlgorithmEntry(
        f"cleanrl.{module}",
        title,
        family,
        "discrete",
        policy,
        observation="image",
        env_families=(environments,),
        extras=(environments, *extras),
        default_env=env,
    )


def _own(entry: AlgorithmEntry) -> AlgorithmEntry:
    """Written here, since the published package lacks it."""
    return replace(entry, module=entry.module.replace("cleanrl.", "cleanrl_worker.algorithms."))


DEFAULT_ALGO_REGISTRY: Mapping[str, AlgorithmEntry] = {
    "ppo": AlgorithmEntry(
        "cleanrl_worker.algorithms.ppo_with_save",
        "PPO (MOSAIC's own: MLP or MiniGrid CNN)",
        "PPO",
        "discrete",
        "actor_critic",
        observation="any",
    ),
    "ppo_upstream": _discrete("ppo", "PPO (upstream's script)", "PPO", "actor_critic"),
    "ppo_continuous_action": _continuous("ppo_continuous_action", "PPO, continuous actions", "PPO", "actor_critic"),
    "pqn": _own(_discrete("pqn", "PQN (parallelised Q-network)", "Q-learning", "values")),
    "pqn_atari_envpool": _own(
        _whole("pqn_atari_envpool", "PQN on Atari by envpool", "Q-learning", "envpool", "Breakout-v5", policy="values")
    ),
    "pqn_atari_envpool_lstm": _own(
        _whole(
            "pqn_atari_envpool_lstm",
            "PQN with LSTM on Atari by envpool",
            "Q-learning",
            "envpool",
            "Breakout-v5",
            policy="recurrent_values",
        )
    ),
    "rpo_continuous_action": _continuous(
        "rpo_continuous_action", "Robust Policy Optimization", "PPO variants", "actor_critic"
    ),
    "dqn": _discrete("dqn", "Deep Q-Network", "Q-learning", "values"),
    "c51": _discrete("c51", "Categorical DQN (C51)", "Distributional", "value_distribution"),
    "ddpg_continuous_action": _continuous(
        "ddpg_continuous_action", "DDPG", "Continuous control", "deterministic_actor"
    ),
    "td3_continuous_action": _continuous("td3_continuous_action", "TD3", "Continuous control", "deterministic_actor"),
    "sac_continuous_action": _continuous(
        "sac_continuous_action", "Soft Actor-Critic", "Continuous control", "squashed_actor"
    ),
    "dqn_jax": _jax("dqn_jax", "DQN in JAX", "Q-learning", "discrete", "CartPole-v1"),
    "c51_jax": _jax("c51_jax", "C51 in JAX", "Distributional", "discrete", "CartPole-v1"),
    "ddpg_continuous_action_jax": _jax(
        "ddpg_continuous_action_jax", "DDPG in JAX", "Continuous control", "continuous", "Pendulum-v1"
    ),
    "td3_continuous_action_jax": _jax(
        "td3_continuous_action_jax", "TD3 in JAX", "Continuous control", "continuous", "Pendulum-v1"
    ),
    "ppo_atari": _atari("ppo_atari", "PPO on Atari", "PPO", "actor_critic"),
    "ppo_atari_lstm": _atari("ppo_atari_lstm", "PPO with LSTM on Atari", "PPO", "recurrent_actor_critic"),
    "ppo_atari_multigpu": _atari("ppo_atari_multigpu", "PPO on Atari, several GPUs", "PPO", "actor_critic"),
    "ppo_atari_envpool": _whole("ppo_atari_envpool", "PPO on Atari by envpool", "PPO", "envpool", "Pong-v5"),
    "ppo_atari_envpool_xla_jax": _whole(
        "ppo_atari_envpool_xla_jax",
        "PPO on Atari by envpool, jitted (JAX)",
        "PPO",
        "envpool",
        "Pong-v5",
        "jax",
        policy="flax_actor_critic",
    ),
    "ppo_atari_envpool_xla_jax_scan": _whole(
        "ppo_atari_envpool_xla_jax_scan",
        "PPO on Atari by envpool, jitted as one scan (JAX)",
        "PPO",
        "envpool",
        "Pong-v5",
        "jax",
        policy="flax_actor_critic",
    ),
    "ppo_rnd_envpool": _whole(
        "ppo_rnd_envpool", "PPO with random network distillation", "PPO", "envpool", "MontezumaRevenge-v5"
    ),
    "ppo_procgen": _whole("ppo_procgen", "PPO on Procgen", "PPO", "procgen", "starpilot"),
    "ppg_procgen": _whole("ppg_procgen", "Phasic Policy Gradient on Procgen", "PPO variants", "procgen", "starpilot"),
    "ppo_pettingzoo_ma_atari": _whole(
        "ppo_pettingzoo_ma_atari", "PPO by self-play on two-player Atari", "PPO", "maatari", "pong_v3"
    ),
    "dqn_atari": _atari("dqn_atari", "DQN on Atari", "Q-learning", "values"),
    "dqn_atari_jax": _atari("dqn_atari_jax", "DQN on Atari in JAX", "Q-learning", "flax_values", "jax"),
    "c51_atari_jax": _atari("c51_atari_jax", "C51 on Atari in JAX", "Distributional", "flax_values", "jax"),
    "rainbow_atari": _own(_atari("rainbow_atari", "Rainbow on Atari", "Q-learning", "expected_values")),
    "qdagger_dqn_atari_impalacnn": _own(
        _atari("qdagger_dqn_atari_impalacnn", "QDagger: DQN with a teacher on Atari", "Q-learning", "values")
    ),
    "qdagger_dqn_atari_jax_impalacnn": _own(
        _atari(
            "qdagger_dqn_atari_jax_impalacnn",
            "QDagger: DQN with a teacher on Atari, in JAX",
            "Q-learning",
            "flax_values",
            "jax",
        )
    ),
    "c51_atari": _atari("c51_atari", "C51 on Atari", "Distributional", "image_value_distribution"),
    "sac_atari": _atari("sac_atari", "SAC on Atari (discrete)", "Continuous control", "discrete_actor"),
}
