"""The worker keeps the contract: the same checks that a third party runs against its own worker."""

import sys

import pytest

from mosaic.worker.conformance import WorkerContractTests


@pytest.mark.slow
class TestRayWorker(WorkerContractTests):
    command = (sys.executable, "-m", "ray_worker.cli")
    patience_s = 300.0  # Ray takes its time on a busy machine
