"""The worker keeps the contract: the same checks that a third party runs against its own worker."""

import sys

import pytest

from mosaic.worker.conformance import WorkerContractTests


@pytest.mark.slow
class TestXuanCeWorker(WorkerContractTests):
    command = (sys.executable, "-m", "xuance_worker.cli")
