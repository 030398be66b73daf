"""The architectures of our own PPO are those that were asked for."""

import gymnasium
import torch
from cleanrl_worker.agents.minigrid import MinigridAgent
from cleanrl_worker.agents.mlp import MLPAgent
from cleanrl_worker.algorithms.ppo_with_save import make_agent
from torch import nn


def layers(module: nn.Module) -> list[str]:
    return [_told(item) for item in module.modules() if not list(item.children())]


def _told(item: nn.Module) -> str:
    match item:
        case nn.Linear():
            return f"Linear({item.in_features}, {item.out_features})"
        case nn.Conv2d():
            return f"Conv2d({item.in_channels}, {item.out_channels}, {item.kernel_size[0]}, padding {item.padding[0]})"
        case _:
            return type(item).__name__


def test_the_minigrid_agent() -> None:
    agent = MinigridAgent(7)
    assert layers(agent.network) == [
        *("Conv2d(3, 32, 3, padding 1)", "ReLU", "Conv2d(32, 64, 3, padding 1)", "ReLU"),
        *("Conv2d(64, 64, 3, padding 1)", "ReLU", "Flatten", "Linear(3136, 128)"),
    ]
    assert layers(agent.actor) == ["Linear(128, 128)", "ReLU", "Linear(128, 7)"]
    assert layers(agent.critic) == ["Linear(128, 128)", "ReLU", "Linear(128, 1)"]
    white = torch.full((2, 7, 7, 3), 255, dtype=torch.uint8)
    seen: list[torch.Tensor] = []
    agent.network.layers[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    agent.get_action_and_value(white)
    assert seen[0].shape == (2, 3, 7, 7) and torch.equal(seen[0], torch.ones(2, 3, 7, 7))


def test_the_mlp_agent() -> None:
    agent = MLPAgent(4, 2)
    assert layers(agent.trunk) == ["Linear(4, 64)", "Tanh", "Linear(64, 64)", "Tanh"]
    assert (layers(agent.actor), layers(agent.critic)) == (["Linear(64, 2)"], ["Linear(64, 1)"])


def test_weights_are_orthogonal_at_the_start() -> None:
    for agent in (MinigridAgent(7), MLPAgent(4, 2)):
        for item in agent.modules():
            if isinstance(item, (nn.Linear, nn.Conv2d)):
                weight = item.weight.detach().flatten(1)
                small = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
                torch.testing.assert_close(small, small[0, 0] * torch.eye(len(small)), atol=1e-4, rtol=0)
                assert not item.bias.any()


def test_the_observation_chooses_the_architecture() -> None:
    class Spaces:
        single_action_space = gymnasium.spaces.Discrete(3)
        single_observation_space = gymnasium.spaces.Box(0, 255, (7, 7, 3))

    assert isinstance(make_agent(Spaces), MinigridAgent)
    Spaces.single_observation_space = gymnasium.spaces.Box(-1, 1, (8,))
    assert isinstance(make_agent(Spaces), MLPAgent)
