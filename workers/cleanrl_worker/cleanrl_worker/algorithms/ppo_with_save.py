"""PPO in one file, for vectors and for MiniGrid's images.

It is laid out as CleanRL lays its scripts out: all state lies in the globals of the main block, and one loop over
`range` is the training. That is what makes it saveable: at the start of each round of that loop the launcher can take
everything, networks, optimizer, random states, the environments and the current observation, and put it back in a new
process, so that a resumed run takes exactly the steps that the uninterrupted one would have taken.
"""

from __future__ import annotations

import argparse
import random
import time
from distutils.util import strtobool

import gymnasium as gym
import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from cleanrl_worker.agents.layers import ActorCritic
from cleanrl_worker.agents.minigrid import IMAGE_SHAPE, MinigridAgent
from cleanrl_worker.agents.mlp import MLPAgent


def parse_args():
    flag = {"type": lambda x: bool(strtobool(x)), "nargs": "?", "const": True}
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--exp-name", type=str, default="ppo", help="name of the experiment")
    add("--seed", type=int, default=1, help="seed of the experiment")
    add("--torch-deterministic", default=True, help="deterministic algorithms of cuDNN", **flag)
    add("--cuda", default=True, help="use a GPU if there is one", **flag)
    add("--capture-video", default=False, help="record videos of the first environment", **flag)
    add("--env-id", type=str, default="CartPole-v1", help="id of the environment")
    add("--total-timesteps", type=int, default=500000, help="environment steps in all")
    add("--learning-rate", type=float, default=2.5e-4, help="learning rate of the optimizer")
    add("--num-envs", type=int, default=4, help="number of parallel environments")
    add("--num-steps", type=int, default=128, help="steps in each environment per rollout")
    add("--anneal-lr", default=True, help="let the learning rate fall to 0 over the budget", **flag)
    add("--gamma", type=float, default=0.99, help="discount factor")
    add("--gae-lambda", type=float, default=0.95, help="lambda of the generalized advantage estimation")
    add("--num-minibatches", type=int, default=4, help="number of minibatches")
    add("--update-epochs", type=int, default=4, help="passes over each rollout")
    add("--norm-adv", default=True, help="normalise advantages", **flag)
    add("--clip-coef", type=float, default=0.2, help="clipping coefficient of the surrogate objective")
    add("--clip-vloss", default=True, help="clip the value loss too", **flag)
    add("--ent-coef", type=float, default=0.01, help="coefficient of the entropy")
    add("--vf-coef", type=float, default=0.5, help="coefficient of the value loss")
    add("--max-grad-norm", type=float, default=0.5, help="maximum norm of the gradient")
    add("--target-kl", type=float, default=None, help="stop passing over a rollout at this KL divergence")
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


def make_agent(envs) -> ActorCritic:
    """The architecture that fits the observations."""
    shape, actions = envs.single_observation_space.shape, int(envs.single_action_space.n)
    if shape == IMAGE_SHAPE:
        return MinigridAgent(actions)
    return MLPAgent(int(np.prod(shape)), actions)


def advantages_of(rewards, dones, values, next_value, next_done, gamma, gae_lambda):
    """Generalized advantage estimation over one rollout."""
    advantages = torch.zeros_like(rewards)
    last = torch.zeros_like(next_value)
    for t in reversed(range(len(rewards))):
        end = t == len(rewards) - 1
        going_on = 1.0 - (next_done if end else dones[t + 1])
        following = next_value if end else values[t + 1]
        delta = rewards[t] + gamma * following * going_on - values[t]
        advantages[t] = last = delta + gamma * gae_lambda * going_on * last
    return advantages


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

    agent = make_agent(envs).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, *envs.single_observation_space.shape), device=device)
    actions = torch.zeros(shape, device=device, dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros(shape, device=device) for _ in range(4))

    global_step = 0
    start_time = time.time()
    next_obs, _ = envs.reset(seed=args.seed)
    next_obs = torch.Tensor(next_obs).to(device)
    next_done = torch.zeros(args.num_envs, device=device)
    num_updates = args.total_timesteps // args.batch_size

    for update in range(1, num_updates + 1):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / num_updates) * args.learning_rate

        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value.flatten()
            next_obs, reward, terminated, truncated, infos = envs.step(action.cpu().numpy())
            rewards[step] = torch.as_tensor(reward, device=device)
            next_obs = torch.Tensor(next_obs).to(device)
            next_done = torch.Tensor(np.logical_or(terminated, truncated)).to(device)
            for info in infos.get("final_info", ()):
                if info and "episode" in info:
                    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                    writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)

        with torch.no_grad():
            next_value = agent.get_value(next_obs).flatten()
        advantages = advantages_of(rewards, dones, values, next_value, next_done, args.gamma, args.gae_lambda)
        returns = advantages + values

        b_obs = obs.reshape((-1, *envs.single_observation_space.shape))
        b_actions, b_logprobs, b_values = actions.reshape(-1), logprobs.reshape(-1), values.reshape(-1)
        b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)

        b_inds = np.arange(args.batch_size)
        clipfracs = []
        for _epoch in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, args.batch_size, args.minibatch_size):
                mb = b_inds[start : start + args.minibatch_size]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb])
                logratio = newlogprob - b_logprobs[mb]
                ratio = logratio.exp()
                with torch.no_grad():
                    old_approx_kl = (-logratio).mean()
                    approx_kl = ((ratio - 1) - logratio).mean()
                    clipfracs.append(((ratio - 1.0).abs() > args.clip_coef).float().mean().item())

                mb_advantages = b_advantages[mb]
                if args.norm_adv:
                    mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                clipped = torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * clipped).mean()

                newvalue = newvalue.view(-1)
                v_loss = (newvalue - b_returns[mb]) ** 2
                if args.clip_vloss:
                    moved = torch.clamp(newvalue - b_values[mb], -args.clip_coef, args.clip_coef)
                    v_loss = torch.max(v_loss, (b_values[mb] + moved - b_returns[mb]) ** 2)
                v_loss = 0.5 * v_loss.mean()

                entropy_loss = entropy.mean()
                loss = pg_loss - args.ent_coef * entropy_loss + v_loss * args.vf_coef
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
        var_y = np.var(y_true)
        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"], global_step)
        writer.add_scalar("losses/value_loss", v_loss.item(), global_step)
        writer.add_scalar("losses/policy_loss", pg_loss.item(), global_step)
        writer.add_scalar("losses/entropy", entropy_loss.item(), global_step)
        writer.add_scalar("losses/old_approx_kl", old_approx_kl.item(), global_step)
        writer.add_scalar("losses/approx_kl", approx_kl.item(), global_step)
        writer.add_scalar("losses/clipfrac", np.mean(clipfracs), global_step)
        explained = np.nan if var_y == 0 else 1 - np.var(y_true - y_pred) / var_y
        writer.add_scalar("losses/explained_variance", explained, global_step)
        writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)

    envs.close()
    writer.close()
