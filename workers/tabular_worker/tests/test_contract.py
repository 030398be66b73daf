"""The reference worker keeps the contract: the same checks that a third party runs against its own worker."""

import sys

from mosaic.worker.conformance import WorkerContractTests


class TestTabularWorker(WorkerContractTests):
    command = (sys.executable, "-m", "tabular_worker.cli")
