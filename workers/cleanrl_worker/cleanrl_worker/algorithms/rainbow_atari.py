"""Rainbow in one file, for Atari (Hessel et al. 2018): DQN with its six extensions together.

Double Q-learning, duelling streams, prioritised replay, n-step returns, noisy layers instead of random actions, and a
distribution over returns (C51). Laid out as CleanRL lays its scripts out, so that it can be saved.
"""

from __future__ import annotations

import argparse
import random
import time
from distutils.util import strtobool

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.atari_wrappers import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
)
from torch import nn
from torch.nn import functional
from torch.utils.tensorboard import SummaryWriter

from cleanrl_worker.algorithms.replay import FrameReplay


def parse_args():
    flag = {"type": lambda x: bool(strtobool(x)), "nargs": "?", "const": True}
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--exp-name", type=str, default="rainbow_atari", help="name of the experiment")
    add("--seed", type=int, default=1, help="seed of the experiment")
    add("--torch-deterministic", default=True, help="deterministic algorithms of cuDNN", **flag)
    add("--cuda", default=True, help="use a GPU if there is one", **flag)
    add("--capture-video", default=False, help="record videos of the environment", **flag)
    add("--env-id", type=str, default="BreakoutNoFrameskip-v4", help="id of the environment")
    add("--total-timesteps", type=int, default=10000000, help="environment steps in all")
    add("--learning-rate", type=float, default=6.25e-5, help="learning rate of the optimizer")
    add("--adam-eps", type=float, default=1.5e-4, help="epsilon of the optimizer")
    add("--buffer-size", type=int, default=1000000, help="steps that the replay buffer holds")
    add("--gamma", type=float, default=0.99, help="discount factor")
    add("--n-step", type=int, default=3, help="steps of reward in a target")
    add("--target-network-frequency", type=int, default=8000, help="steps between updates of the target network")
    add("--batch-size", type=int, default=32, help="size of a batch from the replay buffer")
    add("--min-replay-history", type=int, default=20000, help="steps in the replay buffer before learning starts")
    add("--train-frequency", type=int, default=4, help="steps between two updates")
    add("--n-atoms", type=int, default=51, help="atoms of the distribution of returns")
    add("--v-min", type=float, default=-10.0, help="lowest return of the distribution")
    add("--v-max", type=float, default=10.0, help="highest return of the distribution")
    add("--noisy-sigma", type=float, default=0.5, help="initial noise of the noisy layers")
    add("--priority-alpha", type=float, default=0.5, help="how much priorities count in sampling")
    add("--priority-beta", type=float, default=0.4, help="correction for that sampling at the start (1 at the end)")
    add("--priority-eps", type=float, default=1e-6, help="what is added to every priority")
    add("--max-grad-norm", type=float, default=10.0, help="maximum norm of the gradient")
    return parser.parse_args()


def make_env(env_id, seed, idx, capture_video, run_name):
    def thunk():
        env = gym.make(env_id, **({"render_mode": "rgb_array"} if capture_video and idx == 0 else {}))
        if capture_video and idx == 0:
            env = gym.wrappers.RecordVideo(env, f"videos/{run_name}", disable_logger=True)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env = NoopResetEnv(env, noop_max=30)
        env = MaxAndSkipEnv(env, skip=4)
        env = EpisodicLifeEnv(env)
        if "FIRE" in env.unwrapped.get_action_meanings():
            env = FireResetEnv(env)
        env = ClipRewardEnv(env)
        env = gym.wrappers.ResizeObservation(env, (84, 84))
        env = gym.wrappers.GrayScaleObservation(env)
        env = gym.wrappers.FrameStack(env, 4)
        env.action_space.seed(seed)
        return env

    return thunk


class NoisyLinear(nn.Module):
    """A linear layer with learned, factorised Gaussian noise on its weights. In evaluation mode it has none."""

    def __init__(self, inputs, outputs, sigma):
        super().__init__()
        bound, noise = inputs**-0.5, sigma * inputs**-0.5
        self.weight_mu = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias_mu = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), noise))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), noise))
        self.register_buffer("noise_in", torch.zeros(inputs))
        self.register_buffer("noise_out", torch.zeros(outputs))
        self.reset_noise()

    def reset_noise(self):
        for noise in (self.noise_in, self.noise_out):
            drawn = torch.randn_like(noise)
            noise.copy_(drawn.sign() * drawn.abs().sqrt())

    def forward(self, x):
        if not self.training:
            return functional.linear(x, self.weight_mu, self.bias_mu)
        weight = self.weight_mu + self.weight_sigma * torch.outer(self.noise_out, self.noise_in)
        return functional.linear(x, weight, self.bias_mu + self.bias_sigma * self.noise_out)


class QNetwork(nn.Module):
    """Duelling streams of noisy layers over a convolutional trunk; for every action a distribution over returns."""

    def __init__(self, env, n_atoms=51, v_min=-10.0, v_max=10.0, sigma=0.5):
        super().__init__()
        self.n, self.n_atoms = int(env.single_action_space.n), n_atoms
        self.register_buffer("atoms", torch.linspace(v_min, v_max, n_atoms))
        self.trunk = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.value = self._stream(n_atoms, sigma)
        self.advantage = self._stream(self.n * n_atoms, sigma)

    @staticmethod
    def _stream(outputs, sigma):
        return nn.Sequential(NoisyLinear(3136, 512, sigma), nn.ReLU(), NoisyLinear(512, outputs, sigma))

    def log_probabilities(self, x):
        """(batch, actions, atoms)"""
        features = self.trunk(x / 255.0)
        value = self.value(features).view(-1, 1, self.n_atoms)
        advantage = self.advantage(features).view(-1, self.n, self.n_atoms)
        return functional.log_softmax(value + advantage - advantage.mean(1, keepdim=True), dim=2)

    def forward(self, x):
        """Expected returns of all actions."""
        return (self.log_probabilities(x).exp() * self.atoms).sum(2)

    def reset_noise(self):
        for layer in self.modules():
            if isinstance(layer, NoisyLinear):
                layer.reset_noise()


class SumTree:
    """Non-negative priorities, drawn in proportion: a binary tree of sums over a power of two of leaves."""

    def __init__(self, size):
        self.depth = max(size - 1, 1).bit_length()
        self.first = 1 << self.depth
        self.sums = np.zeros(2 * self.first)

    @property
    def total(self):
        return self.sums[1]

    def __getitem__(self, leaves):
        return self.sums[np.asarray(leaves) + self.first]

    def __setitem__(self, leaves, priorities):
        nodes = np.atleast_1d(leaves) + self.first
        self.sums[nodes] = priorities
        for _level in range(self.depth):
            nodes = nodes >> 1
            self.sums[nodes] = self.sums[2 * nodes] + self.sums[2 * nodes + 1]

    def draw(self, marks):
        """The leaves at these marks between 0 and the total."""
        nodes, marks = np.ones(len(marks), dtype=np.int64), np.array(marks)
        for _level in range(self.depth):
            left = self.sums[2 * nodes]
            right = (marks >= left) & (self.sums[2 * nodes + 1] > 0)
            marks = np.where(right, marks - left, marks)
            nodes = 2 * nodes + right
        return nodes - self.first


class PrioritizedReplay(FrameReplay):
    """Sampled by priority: what a step's prediction was last off by. 0 means that it may not be sampled."""

    def __init__(self, size, frame_shape, stack, n_step, gamma, alpha, eps):
        super().__init__(size, frame_shape, stack, n_step, gamma)
        self.alpha, self.eps = alpha, eps

    def clear(self):
        super().clear()
        self.tree = SumTree(self.buffer_size)
        self.highest = 1.0

    def _offer(self, ready, known, oldest):
        super()._offer(ready, known, oldest)
        self.tree[np.append(ready, oldest)] = [self.highest if known else 0.0, *([0.0] * len(oldest))]

    def sample(self, batch_size, beta):
        """A batch by priority, each with the weight that corrects for having been drawn so."""
        width = self.tree.total / batch_size
        indices = self.tree.draw((np.arange(batch_size) + np.random.random(batch_size)) * width)
        weights = (self.size() * self.tree[indices] / self.tree.total) ** -beta
        return self.batch(indices) | {"indices": indices, "weights": (weights / weights.max()).astype(np.float32)}

    def update(self, indices, errors):
        priorities = (errors + self.eps) ** self.alpha
        self.tree[indices] = priorities
        self.highest = max(self.highest, float(priorities.max()))

    def capture(self):
        priorities = self.tree[np.arange(self.size())]
        return super().capture() | {"priorities": priorities, "highest": np.array([self.highest])}

    def restore(self, arrays):
        super().restore(arrays)
        self.tree[np.arange(len(arrays["priorities"]))] = arrays["priorities"]
        self.highest = float(arrays["highest"][0])


def project(probabilities, rewards, discounts, atoms):
    """The distribution of `rewards + discounts * atoms`, put back onto the atoms."""
    low, high, width = atoms[0], atoms[-1], atoms[1] - atoms[0]
    moved = (rewards.unsqueeze(1) + discounts.unsqueeze(1) * atoms).clamp(low, high)
    # How much of each moved atom falls on each fixed one: 1 at its place, 0 from the next one on.
    shares = (1 - (moved.unsqueeze(1) - atoms.view(1, -1, 1)).abs() / width).clamp(0, 1)
    return (shares * probabilities.unsqueeze(1)).sum(2)


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

    envs = gym.vector.SyncVectorEnv([make_env(args.env_id, args.seed, 0, args.capture_video, run_name)])
    assert isinstance(envs.single_action_space, gym.spaces.Discrete), "only discrete action space is supported"
    stack, *frame_shape = envs.single_observation_space.shape

    q_network = QNetwork(envs, args.n_atoms, args.v_min, args.v_max, args.noisy_sigma).to(device)
    target_network = QNetwork(envs, args.n_atoms, args.v_min, args.v_max, args.noisy_sigma).to(device)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate, eps=args.adam_eps)
    rb = PrioritizedReplay(
        args.buffer_size, frame_shape, stack, args.n_step, args.gamma, args.priority_alpha, args.priority_eps
    )

    each = torch.arange(args.batch_size)
    start_time = time.time()
    obs, _ = envs.reset(seed=args.seed)
    # An array: a resumed run whose environment begins anew does not take it over.
    episode_starts = np.ones(1, dtype=bool)
    for global_step in range(args.total_timesteps):
        q_network.reset_noise()
        with torch.no_grad():
            action = q_network(torch.Tensor(obs).to(device)).argmax(1).cpu().numpy()
        next_obs, reward, terminated, truncated, infos = envs.step(action)
        rb.add(obs[0, -1], action[0], reward[0], terminated[0], episode_starts[0])
        if truncated[0] and not terminated[0]:
            rb.cut_off(np.asarray(infos["final_observation"][0])[-1])
        episode_starts = np.logical_or(terminated, truncated)
        obs = next_obs
        for info in infos.get("final_info", ()):
            if info and "episode" in info:
                writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)

        if rb.size() > args.min_replay_history and global_step % args.train_frequency == 0:
            beta = args.priority_beta + (1 - args.priority_beta) * global_step / args.total_timesteps
            data = rb.sample(args.batch_size, beta)
            batch = {name: torch.as_tensor(array, device=device) for name, array in data.items()}
            q_network.reset_noise()
            target_network.reset_noise()
            with torch.no_grad():
                following = batch["next_observations"].float()
                # Double Q-learning: the one network chooses, the other says what that is worth.
                chosen = q_network(following).argmax(1)
                probabilities = target_network.log_probabilities(following).exp()[each, chosen]
                target = project(probabilities, batch["rewards"], batch["discounts"], q_network.atoms)
            predicted = q_network.log_probabilities(batch["observations"].float())
            losses = -(target * predicted[each, batch["actions"]]).sum(1)
            loss = (batch["weights"] * losses).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q_network.parameters(), args.max_grad_norm)
            optimizer.step()
            # The paper's priority is the divergence of the two distributions: of the loss, what can be learned away.
            divergence = (losses.detach() - torch.special.entr(target).sum(1)).clamp(min=0)
            rb.update(data["indices"], divergence.cpu().numpy())

            if global_step % 100 == 0:
                writer.add_scalar("losses/loss", loss.item(), global_step)
                writer.add_scalar("charts/beta", beta, global_step)
                writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)

        if global_step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())

    envs.close()
    writer.close()
