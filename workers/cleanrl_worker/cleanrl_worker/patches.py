"""What is adapted when a script imports it. No upstream file is edited; each adapter says what it is for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from cleanrl_worker.imports import ImportAdapters

ATARI_WRAPPERS = ("NoopResetEnv", "FireResetEnv", "EpisodicLifeEnv", "MaxAndSkipEnv", "ClipRewardEnv", "WarpFrame")


def install() -> None:
    """Adapt, in this process and once, what is imported and whatever will be."""
    if any(isinstance(finder, ImportAdapters) for finder in sys.meta_path):
        return
    adapters = ImportAdapters()
    adapters.add("gymnasium.envs.registration", adapt_registration)
    adapters.add("gymnasium", adapt_gymnasium)
    adapters.add("gym", adapt_gym)
    adapters.add("stable_baselines3.common.atari_wrappers", adapt_atari_wrappers)
    adapters.add("stable_baselines3.common.buffers", adapt_buffers)
    adapters.add("torch.utils.tensorboard.writer", adapt_summary_writer)
    adapters.add("torch", adapt_torch)
    adapters.add("envpool", adapt_envpool)
    adapters.add("procgen", adapt_procgen)
    adapters.add("supersuit", adapt_supersuit)
    adapters.add("pettingzoo.atari.base_atari_env", adapt_multi_agent_atari)
    adapters.install()


def adapt_registration(registration: ModuleType) -> None:
    """Whoever imports gymnasium does not get every installed package of environments with it.

    That takes seconds, and shimmy's plugin trips over ale_py. `environments.register` asks for what is needed.
    """
    registration.load_plugin_envs = lambda: None  # type: ignore[attr-defined]


def adapt_gymnasium(gymnasium: ModuleType) -> None:
    """`gymnasium.make` makes what the job says: watched by telemetry, seen as the algorithm can see it."""
    real = gymnasium.make

    def make(id: Any, **kwargs: Any) -> Any:
        from cleanrl_worker.session import current

        session = current()
        return real(id, **kwargs) if session is None else session.make_env(id, kwargs)

    make.plain = real  # type: ignore[attr-defined]
    gymnasium.make = make  # type: ignore[attr-defined]


def adapt_gym(gym: ModuleType) -> None:
    """The old `gym.make` gives gymnasium's environments through the bridge."""

    def make(id: str, **kwargs: Any) -> Any:
        import gymnasium

        from cleanrl_worker.bridge import ToGym

        return ToGym(gymnasium.make(id, **kwargs))

    gym.make = make  # type: ignore[attr-defined]


def adapt_atari_wrappers(module: ModuleType) -> None:
    """stable-baselines3's Atari wrappers take old gym's environments too."""
    if "gym" not in sys.modules:
        return
    from cleanrl_worker.bridge import on_either_api

    for name in ATARI_WRAPPERS:
        setattr(module, name, on_either_api(getattr(module, name)))


def adapt_buffers(module: ModuleType) -> None:
    """Replay buffers take old gym's spaces, and the two options that c51_atari asks for and SB3 refuses together."""
    original = module.ReplayBuffer.__init__
    base = module.BaseBuffer.__init__

    def gymnasium_space(space: Any) -> Any:
        if "gym" not in sys.modules:
            return space
        from cleanrl_worker.bridge import space_to_gymnasium

        return space_to_gymnasium(space)

    def init_base(self: Any, size: int, observation_space: Any, action_space: Any, *args: Any, **kwargs: Any) -> None:
        base(self, size, gymnasium_space(observation_space), gymnasium_space(action_space), *args, **kwargs)

    def init(self: Any, size: int, observation_space: Any, action_space: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("handle_timeout_termination", True):
            kwargs.pop("optimize_memory_usage", None)
        original(self, size, gymnasium_space(observation_space), gymnasium_space(action_space), *args, **kwargs)

    module.BaseBuffer.__init__ = init_base
    module.ReplayBuffer.__init__ = init


def adapt_summary_writer(module: ModuleType) -> None:
    """TensorBoard files go to the run's folder, and every scalar is told as telemetry too."""
    writer = module.SummaryWriter
    original_init, original_add = writer.__init__, writer.add_scalar

    def init(self: Any, log_dir: Any = None, *args: Any, **kwargs: Any) -> None:
        from cleanrl_worker.session import current

        session = current()
        original_init(self, log_dir if session is None else session.tensorboard_folder, *args, **kwargs)

    def add_scalar(self: Any, tag: str, scalar_value: Any, global_step: Any = None, *args: Any, **kwargs: Any) -> None:
        from cleanrl_worker.session import current

        session = current()
        if session is not None and global_step is not None:
            session.telemetry.scalar(tag, scalar_value, int(global_step))
        original_add(self, tag, scalar_value, global_step, *args, **kwargs)

    writer.__init__ = init
    writer.add_scalar = add_scalar


def adapt_envpool(envpool: ModuleType) -> None:
    """`envpool.make` gives vectors that are watched as a whole."""
    real = envpool.make

    def make(task_id: str, env_type: str, **kwargs: Any) -> Any:
        from cleanrl_worker.session import current

        session, engine = current(), real(task_id, env_type, **kwargs)
        if session is None:
            return engine
        if env_type != "gym":
            raise ValueError(f"env_type: got {env_type!r}, allowed: 'gym' (others are not watched)")
        from cleanrl_worker.vectors import EnvpoolVector

        return EnvpoolVector(engine, session.watch_vector(len(engine)))

    envpool.make = make  # type: ignore[attr-defined]


def adapt_procgen(procgen: ModuleType) -> None:
    """`ProcgenEnv` gives vectors that are watched as a whole, and seeded, which upstream's scripts do not think of."""
    real = procgen.ProcgenEnv

    def make(num_envs: int, env_name: str, **kwargs: Any) -> Any:
        from cleanrl_worker.session import current

        session = current()
        if session is None:
            return real(num_envs, env_name, **kwargs)
        from cleanrl_worker.vectors import ProcgenVector

        engine = real(num_envs, env_name, **{"rand_seed": session.seed, **kwargs})
        return ProcgenVector(engine, session.watch_vector(num_envs))

    procgen.ProcgenEnv = make  # type: ignore[attr-defined]


def adapt_supersuit(supersuit: ModuleType) -> None:
    """`concat_vec_envs_v1` still knows the `base_class="gym"` that it once had."""
    real = supersuit.concat_vec_envs_v1

    def concat(vec_env: Any, num_vec_envs: int, num_cpus: int = 0, base_class: str = "gymnasium") -> Any:
        from cleanrl_worker.session import current

        session = current()
        if session is None or base_class != "gym":
            return real(vec_env, num_vec_envs, num_cpus, base_class)
        from cleanrl_worker.vectors import PlayersVector, screens

        engine = real(vec_env, num_vec_envs, num_cpus, "gymnasium")
        watch = session.watch_vector(engine.num_envs, lambda: screens(engine))
        return PlayersVector(engine, watch, session.seed)

    supersuit.concat_vec_envs_v1 = concat  # type: ignore[attr-defined]


def adapt_multi_agent_atari(module: ModuleType) -> None:
    """Multi-agent Atari finds the ROMs that ale_py brings, and tells every player's true return in its info."""
    from cleanrl_worker.vectors import TRUE_RETURN

    environment = module.ParallelAtariEnv
    original_init, original_reset, original_step = environment.__init__, environment.reset, environment.step

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        (package,) = importlib.util.find_spec("ale_py").submodule_search_locations  # type: ignore[union-attr,misc]
        original_init(self, *args, **{"auto_rom_install_path": package, **kwargs})

    def reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.true_returns = dict.fromkeys(self.possible_agents, 0.0)
        return original_reset(self, *args, **kwargs)

    def step(self: Any, actions: Any) -> Any:
        observations, rewards, terminations, truncations, infos = original_step(self, actions)
        for agent, reward in rewards.items():
            self.true_returns[agent] += reward
            infos[agent][TRUE_RETURN] = self.true_returns[agent]
        return observations, rewards, terminations, truncations, infos

    environment.__init__, environment.reset, environment.step = init, reset, step


def adapt_torch(torch: ModuleType) -> None:
    """Spare every run seconds of start-up: optimizers import torch's compiler just to be exempt from it.

    What stands in for `torch._dynamo` answers those two calls; whoever asks it for anything else gets the real one.
    """
    name = "torch._dynamo"

    class Absent(ModuleType):
        @staticmethod
        def graph_break(*args: Any, **kwargs: Any) -> None:
            return None

        @staticmethod
        def disable(function: Any, *args: Any, **kwargs: Any) -> Any:
            return function

        def __getattr__(self, attribute: str) -> Any:
            if sys.modules.get(name) is self:
                del sys.modules[name]
            return getattr(importlib.import_module(name), attribute)

    if name not in sys.modules:
        sys.modules[name] = torch._dynamo = Absent(name)  # type: ignore[attr-defined]
