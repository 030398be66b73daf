"""What a checkpoint's networks would do: the script's own classes, filled with the saved weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from safetensors.numpy import load_file

from cleanrl_worker.families import PolicyKind
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY, AlgorithmEntry
from cleanrl_worker.snapshot import weights_file
from mosaic.worker import CheckpointCard, CheckpointError

# How often a sampled policy of a value-based algorithm acts at random, as in CleanRL's own evaluations.
EPSILON = 0.05

Network = Any


class Memory:
    """What a policy carries from step to step of a batch of games. One without an LSTM has nothing to carry."""

    def __init__(self, network: Network, count: int) -> None:
        lstm = getattr(network, "lstm", None)
        self.state: Any = None
        if lstm is not None:
            self.state = tuple(torch.zeros(lstm.num_layers, count, lstm.hidden_size) for _ in range(2))
        self.done = torch.zeros(count)

    def ended(self, done: np.ndarray[Any, Any]) -> None:
        """Say which games ended with the last step, as the script's environments see it: those begin without memory."""
        self.done = torch.as_tensor(np.asarray(done, dtype=np.float32))


@dataclass(frozen=True)
class Ask:
    """How a network is asked for actions."""

    deterministic: bool
    mask: Any
    memory: Memory


Act = Callable[[Network, torch.Tensor, Ask], torch.Tensor]


class NetworkPolicy:
    """Acts on batches of observations as the network sees them."""

    def __init__(self, card: CheckpointCard, folder: Path, spaces: gymnasium.vector.VectorEnv) -> None:
        self.entry = entry_of(card, folder)
        self.arguments = SimpleNamespace(**card.extra["arguments"])
        module = importlib.import_module(self.entry.module)
        name, build, self._act = KINDS[self.entry.policy]
        self._discrete = self.entry.action_space == "discrete"
        self._low, self._high = action_bounds(spaces.single_action_space)
        with torch.random.fork_rng():
            self.network = build(module, spaces, self.arguments)
        weights = load_file(weights_file(folder))
        part = {key.removeprefix(f"{name}."): array for key, array in weights.items() if key.startswith(f"{name}.")}
        try:
            self.network.load_state_dict({key: torch.from_numpy(array) for key, array in part.items()})
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"checkpoint {folder}: its weights do not fit the environment: {reason}") from None
        self.network.eval()
        self._greedy = Greedy(module)

    def memory(self, count: int) -> Memory:
        """For `count` games that begin now."""
        return Memory(self.network, count)

    def actions(
        self, observations: np.ndarray[Any, Any], memory: Memory, *, deterministic: bool, mask: Any = None
    ) -> np.ndarray[Any, Any]:
        batch = torch.as_tensor(np.asarray(observations, dtype=np.float32))
        with torch.no_grad(), self._greedy.distributions(deterministic, mask):
            chosen = self._act(self.network, batch, Ask(deterministic, mask, memory))
        if self._discrete:
            return self._choose(chosen, deterministic, mask).numpy()
        return np.clip(chosen.numpy(), self._low, self._high)

    def values(self, batch: torch.Tensor) -> torch.Tensor:
        """What all actions are worth, of an algorithm that says so."""
        return self._act(self.network, batch, True)

    def _choose(self, chosen: torch.Tensor, deterministic: bool, mask: Any) -> torch.Tensor:
        """Action numbers, from numbers or from values of all actions."""
        if chosen.dim() == 1:
            return chosen
        if mask is not None:
            chosen = chosen.masked_fill(~torch.as_tensor(mask, dtype=torch.bool), -torch.inf)
        best = chosen.argmax(dim=1)
        if deterministic:
            return best
        allowed = torch.isfinite(chosen).float()
        return torch.where(torch.rand(len(best)) < EPSILON, torch.multinomial(allowed, 1).squeeze(1), best)


def entry_of(card: CheckpointCard, folder: Path) -> AlgorithmEntry:
    if card.worker != "cleanrl" or card.algorithm not in DEFAULT_ALGO_REGISTRY:
        raise CheckpointError(
            f"checkpoint {folder}: it is of worker {card.worker!r}, algorithm {card.algorithm!r}, "
            f"allowed: cleanrl and one of {', '.join(DEFAULT_ALGO_REGISTRY)}"
        )
    return DEFAULT_ALGO_REGISTRY[card.algorithm]


def action_bounds(space: Any) -> tuple[Any, Any]:
    return (space.low, space.high) if isinstance(space, gymnasium.spaces.Box) else (None, None)


class Greedy:
    """While it is in force, the distributions that a script's agent samples from give their mode, and respect a mask.

    So an agent that knows only `get_action_and_value` acts deterministically, without anybody retyping its network.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._mask: Any = None
        self._deterministic = False
        self._own = {name: vars(module)[name] for name in ("Categorical", "Normal") if name in vars(module)}
        self._ours = {name: self._subclass(kind) for name, kind in self._own.items()}

    def distributions(self, deterministic: bool, mask: Any) -> Greedy:
        self._deterministic, self._mask = deterministic, mask
        return self

    def __enter__(self) -> None:
        vars(self._module).update(self._ours)

    def __exit__(self, *error: object) -> None:
        vars(self._module).update(self._own)

    def _subclass(self, kind: Any) -> Any:
        policy = self

        class Acting(kind):  # type: ignore[misc]
            def __init__(self, *args: Any, logits: Any = None, **kwargs: Any) -> None:
                if logits is not None:
                    if policy._mask is not None:
                        logits = logits.masked_fill(~torch.as_tensor(policy._mask, dtype=torch.bool), -1e9)
                    kwargs["logits"] = logits
                super().__init__(*args, **kwargs)

            def sample(self, *args: Any, **kwargs: Any) -> torch.Tensor:
                return self.mode if policy._deterministic else super().sample(*args, **kwargs)

        return Acting


def _actor_critic(module: ModuleType, spaces: Any, arguments: Any) -> Network:
    if hasattr(module, "make_agent"):
        return module.make_agent(spaces)
    extra = [arguments.rpo_alpha] if hasattr(arguments, "rpo_alpha") else []
    return module.Agent(spaces, *extra)


def _value_distribution(module: ModuleType, spaces: Any, arguments: Any) -> Network:
    return module.QNetwork(spaces, n_atoms=arguments.n_atoms, v_min=arguments.v_min, v_max=arguments.v_max)


def _act_actor_critic(network: Network, batch: torch.Tensor, ask: Ask) -> torch.Tensor:
    if hasattr(network, "logits") and ask.deterministic:
        return network.logits(batch)
    return network.get_action_and_value(batch)[0]


def _act_recurrent(network: Network, batch: torch.Tensor, ask: Ask) -> torch.Tensor:
    action, *_, ask.memory.state = network.get_action_and_value(batch, ask.memory.state, ask.memory.done)
    return action


def _recurrent_values(network: Network, batch: torch.Tensor, ask: Ask) -> torch.Tensor:
    values, ask.memory.state = network(batch, ask.memory.state, ask.memory.done)
    return values


def _act_by_logits(network: Network, batch: torch.Tensor, ask: Ask) -> torch.Tensor:
    logits = network(batch)
    if ask.deterministic:
        return logits
    if ask.mask is not None:
        logits = logits.masked_fill(~torch.as_tensor(ask.mask, dtype=torch.bool), -torch.inf)
    return torch.distributions.Categorical(logits=logits).sample()


def _expected_values_of_images(network: Network, batch: torch.Tensor, ask: Ask) -> torch.Tensor:
    return _expected_values(network, batch / 255.0, ask)


def _expected_values(network: Network, batch: torch.Tensor, ask: Ask) -> torch.Tensor:
    distributions = torch.softmax(network.network(batch).view(len(batch), network.n, network.n_atoms), dim=2)
    return (distributions * network.atoms).sum(2)


def _flax(name: str) -> Callable[[ModuleType, Any, Any], Network]:
    """A builder that imports jax only when it is needed."""

    def build(module: ModuleType, spaces: Any, arguments: Any) -> Network:
        from cleanrl_worker import flax_networks

        return getattr(flax_networks, name)(module, spaces, arguments)

    return build


# kind -> the network's name in the script, how to make it, how it acts
KINDS: Mapping[PolicyKind, tuple[str, Callable[[ModuleType, Any, Any], Network], Act]] = {
    "actor_critic": ("agent", _actor_critic, _act_actor_critic),
    "recurrent_actor_critic": ("agent", _actor_critic, _act_recurrent),
    "values": ("q_network", lambda module, spaces, _: module.QNetwork(spaces), lambda net, batch, _: net(batch)),
    "recurrent_values": ("q_network", lambda module, spaces, _: module.QNetwork(spaces), _recurrent_values),
    "value_distribution": ("q_network", _value_distribution, _expected_values),
    "image_value_distribution": ("q_network", _value_distribution, _expected_values_of_images),
    "expected_values": ("q_network", _value_distribution, lambda net, batch, _: net(batch)),
    "discrete_actor": (
        "actor",
        lambda module, spaces, _: module.Actor(spaces),
        lambda net, batch, _: net.get_action(batch)[0],
    ),
    "flax_values": ("q_state", _flax("value_network"), lambda net, batch, _: net(batch)),
    "flax_actor": ("actor_state", _flax("actor_network"), lambda net, batch, _: net(batch)),
    "flax_actor_critic": ("agent_state", _flax("actor_critic_network"), _act_by_logits),
    "deterministic_actor": ("actor", lambda module, spaces, _: module.Actor(spaces), lambda net, batch, _: net(batch)),
    "squashed_actor": (
        "actor",
        lambda module, spaces, _: module.Actor(spaces),
        lambda net, batch, ask: net.get_action(batch)[2 if ask.deterministic else 0],
    ),
}
