"""`python -m tabular_worker.cli`: the command line of the worker contract."""

import sys

from mosaic.worker.cli import main
from tabular_worker.runtime import TabularWorker

if __name__ == "__main__":
    sys.exit(main(TabularWorker()))
