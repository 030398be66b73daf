#!/usr/bin/env bash
# @description PPO on CartPole, then 100 evaluation episodes of what it learned
# @phases train, evaluate
# @total_timesteps 100000
. "${MOSAIC_SCRIPT_DIR:-$(dirname "$0")}/common.sh"
steps=${STEPS:-100000}
episodes=${EPISODES:-100}

worker train '{"algo": "ppo", "env_id": "CartPole-v1", "seed": 1, "total_timesteps": '"$steps"'}'
worker evaluate '{"algo": "ppo", "env_id": "CartPole-v1", "seed": 1000, "extras": {
    "mode": "policy_eval", "eval_episodes": '"$episodes"', "policy_path": "'"$(last_checkpoint train)"'"}}'
