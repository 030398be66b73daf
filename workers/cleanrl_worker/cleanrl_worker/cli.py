"""`python -m cleanrl_worker.cli`: the command line of the worker contract."""

import sys

from cleanrl_worker.runtime import CleanRLWorkerRuntime
from mosaic.worker.cli import main

if __name__ == "__main__":
    sys.exit(main(CleanRLWorkerRuntime()))
