"""What QDagger's scripts are built from, against plain arithmetic: no training."""

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cleanrl_worker.algorithms import qdagger_dqn_atari_impalacnn as script
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY
from cleanrl_worker.teachers import check_teacher, teachers_of
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.worker import CheckpointCard, ConfigError
from mosaic.worker.checkpoints import save

VALUES = st.lists(
    st.lists(st.floats(-5, 5).map(lambda value: round(value, 6)), min_size=4, max_size=4), min_size=2, max_size=2
)
ENTRY = DEFAULT_ALGO_REGISTRY["qdagger_dqn_atari_impalacnn"]
GAME = "BreakoutNoFrameskip-v4"


def divergence(values: Any, teacher_values: Any, temperature: float) -> float:
    total = 0.0
    for own, taught in zip(values, teacher_values, strict=True):
        p = np.exp(np.array(taught) / temperature - max(taught) / temperature)
        q = np.exp(np.array(own) / temperature - max(own) / temperature)
        p, q = p / p.sum(), q / q.sum()
        total += sum(a * (np.log(a) - np.log(b)) for a, b in zip(p, q, strict=True) if a > 0)
    return total / len(values)


@settings(deadline=None)
@given(values=VALUES, teacher_values=VALUES, temperature=st.sampled_from([0.1, 1.0, 3.0]))
def test_the_loss_is_the_divergence_of_two_softmax_policies(
    values: list[list[float]], teacher_values: list[list[float]], temperature: float
) -> None:
    one, other = torch.tensor(values, dtype=torch.float64), torch.tensor(teacher_values, dtype=torch.float64)
    loss = script.distillation_loss(one, other, temperature).item()
    assert loss == pytest.approx(divergence(values, teacher_values, temperature), abs=1e-6)
    assert script.distillation_loss(one + 7, one, temperature).item() == pytest.approx(0, abs=1e-9)


def test_the_loss_in_jax_is_the_same() -> None:
    pytest.importorskip("flax", reason="needs extra jax")
    from cleanrl_worker.algorithms import qdagger_dqn_atari_jax_impalacnn as in_jax

    one, other = np.random.default_rng(0).normal(size=(2, 8, 6)).astype(np.float32)
    expected = script.distillation_loss(torch.tensor(one), torch.tensor(other), 0.5).item()
    assert in_jax.distillation_loss(one, other, 0.5).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("student", "teacher", "lowest", "weight"),
    [
        ([5.0], [10.0], 0.0, 1.0),  # fewer games than the window
        ([5.0, 5.0], [], 0.0, 1.0),
        ([0.0, 0.0], [10.0], 0.0, 1.0),
        ([2.0, 3.0], [8.0, 12.0], 0.0, 0.75),
        ([99.0, 2.0, 3.0], [10.0], 0.0, 0.75),  # only the last games count
        ([10.0, 12.0], [10.0], 0.0, 0.0),
        ([-21.0, -21.0], [-1.0], -21.0, 1.0),
        ([-11.0, -11.0], [-1.0], -21.0, 0.5),
        ([1.0, 1.0], [0.0], 0.0, 0.0),  # a teacher that has nothing to teach
    ],
)
def test_the_teacher_counts_the_less_the_nearer_the_student_comes(
    student: list[float], teacher: list[float], lowest: float, weight: float
) -> None:
    assert script.distillation_weight(deque(student), deque(teacher), 2, lowest) == pytest.approx(weight)


def test_the_loss_pulls_the_student_to_the_teachers_choices() -> None:
    torch.manual_seed(0)
    features, teacher_values = torch.randn(64, 16), torch.randn(64, 4)
    student = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
    for _step in range(300):
        loss = script.distillation_loss(student(features), teacher_values, 1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (student(features).argmax(1) == teacher_values.argmax(1)).float().mean() > 0.95


def checkpoint(folder: Path, **changes: str) -> Path:
    card = {"worker": "cleanrl", "algorithm": "dqn_atari", "environment": GAME, **changes}
    return save(folder, CheckpointCard(step=1, **card), lambda path: (path / "x.cleanrl_model").write_bytes(b"weights"))


def test_who_can_teach_is_who_sees_the_same_and_knows_values() -> None:
    assert {"dqn_atari", "dqn_atari_jax", "rainbow_atari", "c51_atari"} <= set(teachers_of(ENTRY))
    assert not {"ppo_atari", "dqn", "sac_atari"} & set(teachers_of(ENTRY))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"worker": "xuance"}, "worker 'xuance'"),
        ({"algorithm": "ppo_atari"}, "algorithm 'ppo_atari'"),
        ({"environment": "PongNoFrameskip-v4"}, "environment 'PongNoFrameskip-v4'"),
    ],
)
def test_a_foreign_teacher_is_refused_by_name(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        check_teacher(str(checkpoint(tmp_path, **changes)), GAME, ENTRY)
    assert "\n" not in str(refused.value) and "extras.algo_params.teacher" in str(refused.value)


def test_no_teacher_and_a_harmed_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the teacher's checkpoint, of BreakoutNoFrameskip-v4 and one of dqn_atari"):
        check_teacher(None, GAME, ENTRY)
    folder = checkpoint(tmp_path)
    (folder / "x.cleanrl_model").write_bytes(b"weight")
    with pytest.raises(ConfigError, match="its hash differs"):
        check_teacher(str(folder), GAME, ENTRY)
