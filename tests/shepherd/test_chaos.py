"""A few of the trials that `./mosaic bench chaos` makes by the hundred."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def chaos_trial():
    spec = importlib.util.spec_from_file_location("chaos_trial", CHECKOUT / "bench" / "chaos_trial.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("trial", range(4))
def test_no_kill_breaks_a_promise(chaos_trial, tmp_path, trial):
    """New seeds every time; a violation names its own, for `./mosaic bench chaos --seed N --trials 1`."""
    assert chaos_trial.Trial(random.randrange(10**6), tmp_path).run()
