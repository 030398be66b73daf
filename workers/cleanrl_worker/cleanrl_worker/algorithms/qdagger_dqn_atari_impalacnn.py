"""QDagger in one file, for Atari (Agarwal et al. 2022, "Reincarnating Reinforcement Learning"): a new network takes
over what an old one knows, and learns on from there.

The teacher is a checkpoint. First it plays, and the student learns offline from what it did: Q-learning plus the
divergence of the student's policy from the teacher's. Then the student plays itself and learns from that; the nearer
its returns come to the teacher's, the less the teacher counts. All three phases are rounds of one main loop, so that a
run can be stopped and resumed in any of them. Laid out as CleanRL lays its scripts out.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
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
from cleanrl_worker.teachers import load_teacher


def parse_args():
    flag = {"type": lambda x: bool(strtobool(x)), "nargs": "?", "const": True}
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--exp-name", type=str, default="qdagger_dqn_atari_impalacnn", help="name of the experiment")
    add("--seed", type=int, default=1, help="seed of the experiment")
    add("--torch-deterministic", default=True, help="deterministic algorithms of cuDNN", **flag)
    add("--cuda", default=True, help="use a GPU if there is one", **flag)
    add("--capture-video", default=False, help="record videos of the environment", **flag)
    add("--env-id", type=str, default="BreakoutNoFrameskip-v4", help="id of the environment")
    add("--total-timesteps", type=int, default=10000000, help="steps in all: the teacher's, offline, the student's")
    add("--teacher", type=str, default=None, help="the teacher: folder of a checkpoint of this environment")
    add("--teacher-steps", type=int, default=100000, help="steps that the teacher plays for the student to learn from")
    add("--teacher-epsilon", type=float, default=0.01, help="share of random actions of the teacher")
    add("--offline-steps", type=int, default=100000, help="updates from these steps before the student plays itself")
    add("--temperature", type=float, default=1.0, help="temperature that makes policies of values")
    add("--lowest-return", type=float, default=0.0, help="return that counts as nothing learned (Pong: -21)")
    add("--return-window", type=int, default=10, help="games over which the student's return is averaged")
    add("--learning-rate", type=float, default=1e-4, help="learning rate of the optimizer")
    add("--buffer-size", type=int, default=1000000, help="steps that the replay buffer holds")
    add("--gamma", type=float, default=0.99, help="discount factor")
    add("--n-step", type=int, default=3, help="steps of reward in a target")
    add("--target-network-frequency", type=int, default=1000, help="steps between updates of the target network")
    add("--batch-size", type=int, default=32, help="size of a batch from the replay buffer")
    add("--start-e", type=float, default=0.1, help="share of the student's random actions at the start")
    add("--end-e", type=float, default=0.01, help="share of the student's random actions at the end")
    add("--exploration-fraction", type=float, default=0.1, help="part of its steps over which that share falls")
    add("--min-replay-history", type=int, default=5000, help="the student's own steps before it learns from them")
    add("--train-frequency", type=int, default=4, help="the student's own steps between two updates")
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


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x):
        return x + self.convolutions(x)


class QNetwork(nn.Module):
    """IMPALA's deep residual network (Espeholt et al. 2018) with a value for every action."""

    def __init__(self, env, channels=(16, 32, 32)):
        super().__init__()
        inputs, height, width = env.single_observation_space.shape
        layers = []
        for outputs in channels:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            layers += [ResidualBlock(outputs), ResidualBlock(outputs)]
            inputs, height, width = outputs, (height + 1) // 2, (width + 1) // 2
        self.network = nn.Sequential(
            *layers,
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(inputs * height * width, 256),
            nn.ReLU(),
            nn.Linear(256, int(env.single_action_space.n)),
        )

    def forward(self, x):
        return self.network(x / 255.0)


def linear_schedule(start_e, end_e, duration, t):
    return max(end_e, start_e + (end_e - start_e) * t / max(duration, 1))


def distillation_loss(values, teacher_values, temperature):
    """The divergence of the policy that the student's values make from the one that the teacher's make."""
    policy = functional.log_softmax(values / temperature, dim=1)
    teacher_policy = functional.log_softmax(teacher_values / temperature, dim=1)
    return functional.kl_div(policy, teacher_policy, log_target=True, reduction="batchmean")


def distillation_weight(student_returns, teacher_returns, window, lowest):
    """How much the teacher counts: all, until the student finished `window` games; nothing, once it is as good."""
    if len(student_returns) < window or not teacher_returns:
        return 1.0
    to_learn = np.mean(teacher_returns) - lowest
    learned = np.mean(list(student_returns)[-window:]) - lowest
    return float(np.clip(1.0 - learned / to_learn, 0.0, 1.0)) if to_learn > 0 else 0.0


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

    teacher = load_teacher(args.teacher, envs, device)
    q_network = QNetwork(envs).to(device)
    target_network = QNetwork(envs).to(device)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    rb = FrameReplay(args.buffer_size, frame_shape, stack, args.n_step, args.gamma)

    start_time = time.time()
    obs, _ = envs.reset(seed=args.seed)
    # An array: a resumed run whose environment begins anew does not take it over.
    episode_starts = np.ones(1, dtype=bool)
    updates, own_steps, own_game = 0, 0, False
    teacher_returns, student_returns = deque(maxlen=1000), deque(maxlen=args.return_window)
    for global_step in range(args.total_timesteps):
        offline = updates < args.offline_steps
        # Also when a run is resumed without its buffer: then the teacher plays again.
        teaching = offline and rb.size() < min(args.teacher_steps, args.buffer_size)

        if teaching or not offline:
            share = args.exploration_fraction * (args.total_timesteps - args.teacher_steps - args.offline_steps)
            epsilon = linear_schedule(args.start_e, args.end_e, share, own_steps)
            if random.random() < (args.teacher_epsilon if teaching else epsilon):
                action = envs.action_space.sample()
            else:
                with torch.no_grad():
                    values = (teacher if teaching else q_network)(torch.Tensor(obs).to(device))
                action = values.argmax(1).cpu().numpy()
            next_obs, reward, terminated, truncated, infos = envs.step(action)
            rb.add(obs[0, -1], action[0], reward[0], terminated[0], episode_starts[0])
            if truncated[0] and not terminated[0]:
                rb.cut_off(np.asarray(infos["final_observation"][0])[-1])
            episode_starts = np.logical_or(terminated, truncated)
            obs = next_obs
            own_steps += not teaching
            for info in infos.get("final_info", ()):
                if info and "episode" in info:
                    # The game that the student takes over from the teacher counts for neither.
                    if teaching:
                        teacher_returns.append(info["episode"]["r"].item())
                    elif own_game:
                        student_returns.append(info["episode"]["r"].item())
                    own_game = not teaching
                    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                    writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)

        learning = rb.size() > args.min_replay_history and own_steps % args.train_frequency == 0
        if not teaching and (offline or learning):
            data = rb.sample(args.batch_size)
            batch = {name: torch.as_tensor(array, device=device) for name, array in data.items()}
            observations = batch["observations"].float()
            weight = 1.0
            if not offline:
                weight = distillation_weight(student_returns, teacher_returns, args.return_window, args.lowest_return)
            with torch.no_grad():
                following = target_network(batch["next_observations"].float()).max(1).values
                target = batch["rewards"] + batch["discounts"] * following
            predicted = q_network(observations)
            td_loss = functional.mse_loss(predicted.gather(1, batch["actions"].unsqueeze(1)).squeeze(1), target)
            loss = td_loss
            if weight > 0:
                with torch.no_grad():
                    teacher_values = teacher(observations)
                distilled = distillation_loss(predicted, teacher_values, args.temperature)
                loss = loss + weight * distilled
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            if (updates if offline else own_steps) % 100 == 0:
                writer.add_scalar("losses/loss", loss.item(), global_step)
                writer.add_scalar("losses/td_loss", td_loss.item(), global_step)
                writer.add_scalar("losses/q_values", predicted.mean().item(), global_step)
                writer.add_scalar("charts/distillation_weight", weight, global_step)
                if weight > 0:
                    agreed = (predicted.argmax(1) == teacher_values.argmax(1)).float().mean().item()
                    writer.add_scalar("losses/distillation_loss", distilled.item(), global_step)
                    writer.add_scalar("charts/agreement_with_teacher", agreed, global_step)
                writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)

        if global_step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())

        if offline and not teaching:
            updates += 1
            if updates == args.offline_steps:
                # From here on the student learns from what it does itself.
                rb.clear()
                episode_starts = np.ones(1, dtype=bool)

    envs.close()
    writer.close()
