"""PQN with a memory in one file, for Atari by envpool (Gallici et al. 2024): one picture a step instead of four.

The same as `pqn_atari_envpool`, with an LSTM between the convolutional trunk and the values. It learns from whole
rollouts of some of the games, each from the memory that the rollout began with.
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
from cleanrl_worker.algorithms.pqn_atari_envpool import Trunk, layer_init


def parse_args():
    flag = {"type": lambda x: bool(strtobool(x)), "nargs": "?", "const": True}
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--exp-name", type=str, default="pqn_atari_envpool_lstm", help="name of the experiment")
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
    add("--num-minibatches", type=int, default=4, help="number of minibatches, each of whole games")
    add("--update-epochs", type=int, default=2, help="passes over each rollout")
    add("--max-grad-norm", type=float, default=10.0, help="maximum norm of the gradient")
    add("--start-e", type=float, default=1.0, help="share of random actions at the start")
    add("--end-e", type=float, default=0.01, help="share of random actions at the end")
    add("--exploration-fraction", type=float, default=0.1, help="part of the budget over which that share falls")
    args = parser.parse_args()
    args.batch_size = args.num_envs * args.num_steps
    if args.num_envs % args.num_minibatches:
        parser.error(f"--num-envs {args.num_envs} cannot be divided into --num-minibatches {args.num_minibatches}")
    return args


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.trunk = Trunk(1)
        self.lstm = nn.LSTM(512, 128)
        for name, parameter in self.lstm.named_parameters():
            (nn.init.zeros_ if "bias" in name else nn.init.orthogonal_)(parameter)
        self.head = layer_init(nn.Linear(128, int(env.single_action_space.n)))

    def initial_state(self, count):
        zeros = torch.zeros(self.lstm.num_layers, count, self.lstm.hidden_size, device=self.head.weight.device)
        return zeros, zeros

    def forward(self, x, state, done):
        """Values of one step, or of several after each other, and the memory after them. `done`: begin without one."""
        games = state[0].shape[1]
        features = self.trunk(x / 255.0).reshape(-1, games, self.lstm.input_size)
        remembered = []
        for feature, ended in zip(features, done.reshape(-1, games), strict=True):
            going_on = (1.0 - ended).view(1, -1, 1)
            output, state = self.lstm(feature.unsqueeze(0), (going_on * state[0], going_on * state[1]))
            remembered.append(output)
        return self.head(torch.cat(remembered).flatten(0, 1)), state


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
        stack_num=1,
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
    next_state = q_network.initial_state(args.num_envs)
    num_updates = args.total_timesteps // args.batch_size

    for update in range(1, num_updates + 1):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / num_updates) * args.learning_rate

        first_state = next_state
        with torch.no_grad():
            next_values, state = q_network(next_obs, next_state, next_done)
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
                next_state = state
                next_values, state = q_network(next_obs, next_state, next_done)
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

        games = np.arange(args.num_envs)
        for _epoch in range(args.update_epochs):
            np.random.shuffle(games)
            for mb in np.split(games, args.num_minibatches):
                b_obs = obs[:, mb].flatten(0, 1)
                memory = tuple(part[:, mb] for part in first_state)
                values = q_network(b_obs, memory, dones[:, mb])[0].gather(1, actions[:, mb].reshape(-1, 1)).squeeze(1)
                target, weight = targets[:, mb].reshape(-1), chosen[:, mb].reshape(-1)
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
