"""`python -m ray_worker.cli`: the command line of the worker contract."""

import sys

from mosaic.worker.cli import main
from ray_worker.worker import RayWorker

if __name__ == "__main__":
    sys.exit(main(RayWorker()))
