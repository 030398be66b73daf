"""PQN in one file, for Atari by envpool (Gallici et al. 2024): Q-learning without replay buffer and target network.

The same as `pqn`, on images: what many games just did is learned from at once, by Q(lambda) targets, through a
convolutional network with LayerNorm before every activation. Laid out as CleanRL lays its scripts out.
"""

from __future__ import annotations

import argparse
import random
import time
from distutils.util import strtobool

import envpool
import gym
import numpy as np
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from cleanrl_worker.algorithms.pqn import linear_schedule, q_lambda_targets


def parse_args():
    flag = {"type": lambda x: bool(strtobool(x)), "nargs": "?", "const": True}
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--exp-name", type=str, default="pqn_atari_envpool", help="name of the experiment")
    add("--seed", type=int, default=1, help="seed of the experiment")
    add("--torch-deterministic", default=True, help="deterministic algorithms of cuDNN", **flag)
    add("--cuda", default=True, help="use a GPU if there is one", **flag)
    add("--env-id", type=str, default="Breakout-v5", help="id of the environment")
    add("--total-timesteps", type=int, default=10000000, help="environment steps in all")
    add("--learning-rate", type=float, default=2.5e-4, help="learning rate of the optimizer")
    add("--num-envs", type=int, default=8, help="number of parallel environments")
    add("--num-steps", type=int, default=128, help="steps in each environment per rollout")
    add("--anneal-lr", default=True, help="let the learning rate fall to 0 over the budget", **flag)
    add("--gamma", type=float, default=0.99, help="discount factor")
    add("--q-lambda", type=float, default=0.65, help="lambda of the Q(lambda) targets")
    add("--num-minibatches", type=int, default=4, help="number of minibatches")
    add("--update-epochs", type=int, default=2, help="passes over each rollout")
    add("--max-grad-norm", type=float, default=10.0, help="maximum norm of the gradient")
    add("--start-e", type=float, default=1.0, help="share of random actions at the start")
    add("--end-e", type=float, default=0.01, help="share of random actions at the end")
    add("--exploration-fraction", type=float, default=0.1, help="part of the budget over which that share falls")
    args = parser.parse_args()
    args.batch_size = args.num_envs * args.num_steps
    args.minibatch_size = args.batch_size // args.num_minibatches
    return args


def layer_init(layer):
    nn.init.orthogonal_(layer.weight, 2**0.5)
    nn.init.zeros_(layer.bias)
    return layer


class Trunk(nn.Sequential):
    """From stacked pictures to 512 features."""

    def __init__(self, pictures):
        super().__init__(
            layer_init(nn.Conv2d(pictures, 32, 8, stride=4)),
            nn.LayerNorm((32, 20, 20)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.LayerNorm((64, 9, 9)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.LayerNorm((64, 7, 7)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(3136, 512)),
            nn.LayerNorm(512),
            nn.ReLU(),
        )


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.trunk = Trunk(4)
        self.head = layer_init(nn.Linear(512, int(env.single_action_space.n)))

    def forward(self, x):
        return self.head(self.trunk(x / 255.0))


if __name__ == "__main__":
    args = parse_args()
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"runs/{run_name}")
    rows = [f"|{name}|{value}|" for name, value in vars(args).items()]
    writer.add_text("hyperparameters", "\n".join(["|param|value|", "|-|-|", *rows]))

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")

    envs = envpool.make(
        args.env_id,
        env_type="gym",
        num_envs=args.num_envs,
        episodic_life=True,
        reward_clip=True,
        seed=args.seed,
    )
    envs.single_action_space = envs.action_space
    envs.single_observation_space = envs.observation_space
    assert isinstance(envs.action_space, gym.spaces.Discrete), "only discrete action space is supported"

    q_network = QNetwork(envs).to(device)
    optimizer = torch.optim.RAdam(q_network.parameters(), lr=args.learning_rate)

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, *envs.single_observation_space.shape), device=device, dtype=torch.uint8)
    actions = torch.zeros(shape, device=device, dtype=torch.long)
    rewards, dones, following = (torch.zeros(shape, device=device) for _ in range(3))
    ends = torch.zeros(shape, device=device, dtype=torch.bool)
    game_return, game_length = np.zeros(args.num_envs), np.zeros(args.num_envs, dtype=np.int64)

    global_step = 0
    start_time = time.time()
    next_obs = torch.as_tensor(envs.reset(), device=device)
    next_done = torch.zeros(args.num_envs, device=device)
    num_updates = args.total_timesteps // args.batch_size

    for update in range(1, num_updates + 1):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / num_updates) * args.learning_rate

        with torch.no_grad():
            next_values = q_network(next_obs)
        for step in range(args.num_steps):
            global_step += args.num_envs
            epsilon = linear_schedule(
                args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step
            )
            greedy = next_values.argmax(1)
            at_random = torch.rand(args.num_envs, device=device) < epsilon
            action = torch.where(at_random, torch.randint_like(greedy, envs.single_action_space.n), greedy)

            obs[step], actions[step], dones[step] = next_obs, action, next_done
            next_obs, reward, done, info = envs.step(action.cpu().numpy())
            next_obs, next_done = torch.as_tensor(next_obs, device=device), torch.Tensor(done).to(device)
            rewards[step] = torch.as_tensor(reward, device=device)
            ends[step] = torch.as_tensor(done, device=device)
            terminal = torch.as_tensor(done & ~info["TimeLimit.truncated"], device=device)
            with torch.no_grad():
                next_values = q_network(next_obs)
            # envpool shows how a game ended, and begins the next one with the step after that. So an episode that is
            # cut off is worth what its last picture promises.
            following[step] = next_values.max(1).values * ~terminal

            game_return, game_length = game_return + info["reward"], game_length + 1
            for i in np.flatnonzero(done & (info["lives"] == 0)):
                writer.add_scalar("charts/episodic_return", game_return[i], global_step)
                writer.add_scalar("charts/episodic_length", game_length[i], global_step)
                game_return[i], game_length[i] = 0.0, 0

        targets = q_lambda_targets(rewards, ends, following, args.gamma, args.q_lambda)
        # A step that only begins the next game is nobody's action.
        chosen = 1.0 - dones
        b_obs = obs.reshape((-1, *envs.single_observation_space.shape))
        b_actions, b_targets, b_chosen = actions.reshape(-1, 1), targets.reshape(-1), chosen.reshape(-1)

        b_inds = np.arange(args.batch_size)
        for _epoch in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, args.batch_size, args.minibatch_size):
                mb = b_inds[start : start + args.minibatch_size]
                values = q_network(b_obs[mb]).gather(1, b_actions[mb]).squeeze(1)
                target, weight = b_targets[mb], b_chosen[mb]
                loss = (weight * (values - target) ** 2).sum() / weight.sum().clamp(min=1.0)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(q_network.parameters(), args.max_grad_norm)
                optimizer.step()

        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"], global_step)
        writer.add_scalar("charts/epsilon", epsilon, global_step)
        writer.add_scalar("losses/td_loss", loss.item(), global_step)
        writer.add_scalar("losses/q_values", values.mean().item(), global_step)
        writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)

    envs.close()
    writer.close()
