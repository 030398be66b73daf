"""The CleanRL worker keeps the contract."""

import sys

from mosaic.worker.conformance import WorkerContractTests


class TestCleanRLWorker(WorkerContractTests):
    command = (sys.executable, "-m", "cleanrl_worker.cli")
