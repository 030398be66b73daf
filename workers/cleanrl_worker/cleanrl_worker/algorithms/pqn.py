"""PQN in one file, for vectors: Q-learning without replay buffer and target network (Gallici et al. 2024).

Several environments are stepped together; what they just did is learned from at once, by Q(lambda) targets. What keeps
that stable is LayerNorm before every activation. Laid out as CleanRL lays its scripts out, so that it can be saved.
"""

from __future__ import annotations

import argparse
import random
import time
from distutils.util import strtobool

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter


def parse_args():
    flag = {"type": lambda x: bool(strtobool(x)), "nargs": "?", "const": True}
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--exp-name", type=str, default="pqn", help="name of the experiment")
    add("--seed", type=int, default=1, help="seed of the experiment")
    add("--torch-deterministic", default=True, help="deterministic algorithms of cuDNN", **flag)
    add("--cuda", default=True, help="use a GPU if there is one", **flag)
    add("--capture-video", default=False, help="record videos of the first environment", **flag)
    add("--env-id", type=str, default="CartPole-v1", help="id of the environment")
    add("--total-timesteps", type=int, default=500000, help="environment steps in all")
    add("--learning-rate", type=float, default=1e-3, help="learning rate of the optimizer")
    add("--num-envs", type=int, default=8, help="number of parallel environments")
    add("--num-steps", type=int, default=64, help="steps in each environment per rollout")
    add("--anneal-lr", default=True, help="let the learning rate fall to 0 over the budget", **flag)
    add("--gamma", type=float, default=0.99, help="discount factor")
    add("--q-lambda", type=float, default=0.65, help="lambda of the Q(lambda) targets")
    add("--num-minibatches", type=int, default=4, help="number of minibatches")
    add("--update-epochs", type=int, default=4, help="passes over each rollout")
    add("--max-grad-norm", type=float, default=10.0, help="maximum norm of the gradient")
    add("--start-e", type=float, default=1.0, help="share of random actions at the start")
    add("--end-e", type=float, default=0.05, help="share of random actions at the end")
    add("--exploration-fraction", type=float, default=0.5, help="part of the budget over which that share falls")
    args = parser.parse_args()
    args.batch_size = args.num_envs * args.num_steps
    args.minibatch_size = args.batch_size // args.num_minibatches
    return args


def make_env(env_id, seed, idx, capture_video, run_name):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        if capture_video and idx == 0:
            env = gym.wrappers.RecordVideo(env, f"videos/{run_name}", disable_logger=True)
        env.action_space.seed(seed)
        return env

    return thunk


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(int(np.prod(env.single_observation_space.shape)), 120),
            nn.LayerNorm(120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.LayerNorm(84),
            nn.ReLU(),
            nn.Linear(84, int(env.single_action_space.n)),
        )

    def forward(self, x):
        return self.network(x.flatten(1))


def linear_schedule(start_e, end_e, duration, t):
    return max(end_e, start_e + (end_e - start_e) * t / duration)


def q_lambda_targets(rewards, ends, following, gamma, q_lambda):
    """Targets for every step of a rollout. `following`: the value of the state that a step led to, 0 if terminal;
    `ends`: whether the episode ended with the step."""
    targets = torch.zeros_like(rewards)
    later = following[-1]
    for t in reversed(range(len(rewards))):
        going_on = (1.0 - q_lambda) * following[t] + q_lambda * later
        targets[t] = later = rewards[t] + gamma * torch.where(ends[t], following[t], going_on)
    return targets


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

    envs = gym.vector.SyncVectorEnv(
        [make_env(args.env_id, args.seed + i, i, args.capture_video, run_name) for i in range(args.num_envs)]
    )
    assert isinstance(envs.single_action_space, gym.spaces.Discrete), "only discrete action space is supported"

    q_network = QNetwork(envs).to(device)
    optimizer = torch.optim.RAdam(q_network.parameters(), lr=args.learning_rate)

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, *envs.single_observation_space.shape), device=device)
    actions = torch.zeros(shape, device=device, dtype=torch.long)
    rewards, following = (torch.zeros(shape, device=device) for _ in range(2))
    ends = torch.zeros(shape, device=device, dtype=torch.bool)

    global_step = 0
    start_time = time.time()
    next_obs, _ = envs.reset(seed=args.seed)
    next_obs = torch.Tensor(next_obs).to(device)
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

            obs[step], actions[step] = next_obs, action
            next_obs, reward, terminated, truncated, infos = envs.step(action.cpu().numpy())
            next_obs = torch.Tensor(next_obs).to(device)
            rewards[step] = torch.as_tensor(reward, device=device)
            ends[step] = torch.as_tensor(np.logical_or(terminated, truncated), device=device)
            with torch.no_grad():
                next_values = q_network(next_obs)
                following[step] = next_values.max(1).values * ~ends[step]
                # An episode that is cut off would have gone on: from where it was, not from where the next one begins.
                for i in np.flatnonzero(truncated & ~terminated):
                    final = torch.Tensor(infos["final_observation"][i]).to(device)
                    following[step, i] = q_network(final.unsqueeze(0)).max()
            for info in infos.get("final_info", ()):
                if info and "episode" in info:
                    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                    writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)

        targets = q_lambda_targets(rewards, ends, following, args.gamma, args.q_lambda)
        b_obs = obs.reshape((-1, *envs.single_observation_space.shape))
        b_actions, b_targets = actions.reshape(-1, 1), targets.reshape(-1)

        b_inds = np.arange(args.batch_size)
        for _epoch in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, args.batch_size, args.minibatch_size):
                mb = b_inds[start : start + args.minibatch_size]
                values = q_network(b_obs[mb]).gather(1, b_actions[mb]).squeeze(1)
                loss = nn.functional.mse_loss(values, b_targets[mb])
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
