"""`mosaic quickstart`: from an empty home to an evaluated policy, told so that a CI log reads well."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
Mosaic = Callable[..., str]


@pytest.fixture
def mosaic(tmp_path: Path) -> Iterator[Mosaic]:
    """The command in a home of its own that has this worker's environment already."""
    (tmp_path / "envs").symlink_to(Path(sys.prefix).parents[1])

    def call(*arguments: str) -> str:
        variables = {**os.environ, "MOSAIC_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [CHECKOUT / "mosaic", *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield call
    call("down", "--cancel-runs")


def test_it_ends_with_result_folder_and_address(mosaic: Mosaic, tmp_path: Path) -> None:
    text = mosaic("quickstart", "--steps", "4096")
    (folder,) = (line.split()[-1] for line in text.splitlines() if line.startswith("Run folder:"))
    assert folder.startswith(str(tmp_path)) and (Path(folder) / "run.sqlite").exists()
    parts = ("[1/4]", "[2/4]", "[3/4]", "100%", "SUCCEEDED", "[4/4]", "Return before:", "Return after:", "/login?code=")
    places = [text.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), text
    assert "\x1b" not in text
    before, after = (_number_after(text, f"Return {when}:") for when in ("before", "after"))
    assert after > before + 20, "it learned nothing"


def _number_after(text: str, words: str) -> float:
    return float(text.split(words)[1].split()[0].rstrip(","))
