"""Does every CleanRL algorithm train, resume and play? Runs `workers/cleanrl_worker/bench/matrix.py` in the worker's
environment: `./mosaic bench cleanrl-matrix [ALGORITHM ...]`."""

import os
import subprocess
import sys

from mosaic.envs import WorkerEnvs
from mosaic.paths import CHECKOUT, Home

worker = WorkerEnvs(Home.from_environment()).get("cleanrl")
script = CHECKOUT / "workers" / "cleanrl_worker" / "bench" / "matrix.py"
out = CHECKOUT / "bench" / "out" / "cleanrl-matrix.json"
environment = {**os.environ, "CLEANRL_MATRIX_OUT": str(out)}
sys.exit(subprocess.run([worker.python, script, *sys.argv[1:]], env=environment, check=False).returncode)
