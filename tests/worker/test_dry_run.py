"""What `--dry-run` tells of a config that is fine."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

WORKER = """
    import sys
    from dataclasses import dataclass
    from mosaic.worker import Worker, WorkerCapabilities
    from mosaic.worker.cli import main

    @dataclass(frozen=True)
    class Config:
        steps: int = 1

    class Outer(Worker):
        capabilities = WorkerCapabilities(worker_type="outer")
        version, title, config_type = "1", "Outer", Config

        def command(self, config):
            return ["count to", str(config.steps)] if config.steps > 1 else []

        def run(self, config, run):
            raise AssertionError("a dry run runs nothing")

    sys.exit(main(Outer()))
"""


def dry_run(folder: Path, steps: int, *options: str) -> subprocess.CompletedProcess[str]:
    config = folder / "config.json"
    config.write_text(json.dumps({"steps": steps}))
    command = [sys.executable, "-c", textwrap.dedent(WORKER), "--config", str(config), "--dry-run", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_it_tells_the_command_that_a_run_would_start(tmp_path: Path) -> None:
    assert dry_run(tmp_path, 3).stderr == "config: fine\ncommand: 'count to' 3\n"
    assert json.loads(dry_run(tmp_path, 3, "--json").stdout) == {"ok": True, "errors": [], "command": ["count to", "3"]}


def test_where_nothing_else_is_started_there_is_none_to_tell(tmp_path: Path) -> None:
    assert dry_run(tmp_path, 1).stderr == "config: fine\n"
    assert json.loads(dry_run(tmp_path, 1, "--json").stdout)["command"] == []
