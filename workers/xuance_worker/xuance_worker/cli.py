"""`python -m xuance_worker.cli`: the command line of the worker contract."""

import sys

from mosaic.worker.cli import main
from xuance_worker.worker import XuanCeWorker

if __name__ == "__main__":
    sys.exit(main(XuanCeWorker()))
