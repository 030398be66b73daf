#!/usr/bin/env bash
# @description A warm-up on an empty MiniGrid room, the DoorKey curriculum, and an evaluation on a small DoorKey
# @phases warmup, curriculum, evaluate
# @total_timesteps 900000
. "${MOSAIC_SCRIPT_DIR:-$(dirname "$0")}/common.sh"
steps=${STEPS:-800000}
warmup=${WARMUP:-100000}
episodes=${EPISODES:-50}

worker warmup '{"algo": "ppo", "env_id": "MiniGrid-Empty-5x5-v0", "seed": 1, "total_timesteps": '"$warmup"'}'
worker curriculum '{"algo": "ppo", "env_id": "MiniGrid-DoorKey-5x5-v0", "seed": 1, "total_timesteps": '"$steps"', "extras": {
    "curriculum_schedule": "BABYAI_DOORKEY_CURRICULUM", "algo_params": {"num_envs": 8}}}'
worker evaluate '{"algo": "ppo", "env_id": "MiniGrid-DoorKey-5x5-v0", "seed": 1000, "extras": {
    "mode": "policy_eval", "eval_episodes": '"$episodes"', "policy_path": "'"$(last_checkpoint curriculum)"'"}}'
