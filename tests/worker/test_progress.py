"""How far a run means to go is said by its worker, wherever its config has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

WORKER = """
    import sys
    from dataclasses import dataclass, field
    from mosaic.worker import ConfigFields, Worker, WorkerCapabilities
    from mosaic.worker.cli import main

    @dataclass(frozen=True)
    class Training:
        budget: int = 7

    @dataclass(frozen=True)
    class Config:
        run_id: str = ""
        training: Training = field(default_factory=Training)

    class Nested(Worker[Config]):
        capabilities = WorkerCapabilities(worker_type="nested", supported_paradigms=(), env_families=())
        version, title, config_type = "1", "Nested", Config
        fields = ConfigFields(algorithm=None, total_steps="training.budget", environment=None, seed=None)
        def run(self, config, run):
            pass

    sys.exit(main(Nested()))
"""


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({}, 7),
        ({"training": {"budget": 300}}, 300),
        ({"training": {"budget": 10**30}}, None),  # more than a store can hold, and far more than a run can do
    ],
)
def test_the_total_is_found_where_the_fields_say(tmp_path: Path, config: dict[str, Any], total: int | None) -> None:
    (tmp_path / "worker.py").write_text(textwrap.dedent(WORKER))
    (tmp_path / "config.json").write_text(json.dumps(config))
    argv = [sys.executable, str(tmp_path / "worker.py"), "--config", str(tmp_path / "config.json")]
    done = subprocess.run(argv, cwd=tmp_path, env=os.environ, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    started = json.loads(done.stdout.splitlines()[0])
    assert started["type"] == "run_started"
    assert started.get("total_steps") == total
