"""Steps per CPU-second of the XuanCe worker against a plain XuanCe script of the same config, a round of each by turns.

    ./mosaic bench xuance-throughput [--only mappo,...] [--rounds 12] [--pairs 2]

A pair is two processes; the first rounds of each are not counted. Goal: at least 0.97 of the plain script's.
"""

from throughput_bench import compare

CASES = ("mappo", "ippo", "qmix")

if __name__ == "__main__":
    compare("xuance", CASES, __doc__)
