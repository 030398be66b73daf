"""The examples of scripts with several phases do what they say, here with tiny budgets."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY = {"STEPS": "2048", "WARMUP": "1024", "EPISODES": "2"}
slow = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    ["train_evaluate", pytest.param("goto_curriculum", marks=slow), pytest.param("warmup_doorkey", marks=slow)],
)
def test_an_example_goes_through_its_phases(name: str, tmp_path: Path) -> None:
    script = EXAMPLES / f"{name}.sh"
    said = dict(re.findall(r"^# @(\w+) (.+)$", script.read_text(), re.MULTILINE))
    assert said.keys() == {"description", "phases", "total_timesteps"}
    mine = {key: value for key, value in os.environ.items() if not key.startswith("MOSAIC_")}
    done = subprocess.run(
        ["bash", script],
        cwd=tmp_path,
        env={**mine, **TINY, "CLEANRL_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    phases = re.findall(r"^@phase (\w+)$", done.stdout, re.MULTILINE)
    assert phases == said["phases"].split(", ")
    summary = json.loads((tmp_path / "runs" / "evaluate" / "eval_summary.json").read_text())
    assert len(summary["per_episode"]) == 2
