#!/usr/bin/env bash
# @description BabyAI's GoTo tasks from easy to hard, then an evaluation on the hardest
# @phases curriculum, evaluate
# @total_timesteps 800000
. "${MOSAIC_SCRIPT_DIR:-$(dirname "$0")}/common.sh"
steps=${STEPS:-800000}
episodes=${EPISODES:-50}

worker curriculum '{"algo": "ppo", "env_id": "BabyAI-GoToLocal-v0", "seed": 1, "total_timesteps": '"$steps"', "extras": {
    "curriculum_schedule": "BABYAI_GOTO_CURRICULUM", "algo_params": {"num_envs": 8}}}'
worker evaluate '{"algo": "ppo", "env_id": "BabyAI-GoToLocal-v0", "seed": 1000, "extras": {
    "mode": "policy_eval", "eval_episodes": '"$episodes"', "policy_path": "'"$(last_checkpoint curriculum)"'"}}'
