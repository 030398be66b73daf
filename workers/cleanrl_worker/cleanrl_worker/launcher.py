"""`python -m cleanrl_worker.launcher SCRIPT FLAGS...`: the process in which a script runs, as by `python script.py`."""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import suppress

import msgspec

from cleanrl_worker.job import JOB_VARIABLE, ScriptJob
from cleanrl_worker.session import Session, StopScript
from mosaic.worker.child import joined_run


def main() -> None:
    job = msgspec.json.decode(os.environ[JOB_VARIABLE], type=ScriptJob)
    with joined_run("cleanrl") as child, Session(job, child.run) as session:
        del sys.argv[0]
        with suppress(StopScript):
            runpy.run_module(sys.argv[0], {"range": session.range}, "__main__", alter_sys=True)
        child.summary.update(session.summary())


if __name__ == "__main__":
    main()
