"""Steps per CPU-second of the Ray worker against plain RLlib scripts of the same config, an iteration of each by turns.

    ./mosaic bench ray-throughput [--only ppo_cartpole,...] [--rounds 12] [--pairs 2]

A pair is two processes; the first iterations of each are not counted. Goal: at least 0.97 of the plain script's.
"""

from throughput_bench import compare

CASES = ("ppo_cartpole", "dqn_cartpole", "ppo_spread", "ppo_waterworld", "ppo_tictactoe")


if __name__ == "__main__":
    compare("ray", CASES, __doc__)
