"""Schedules, and a training that goes through the stages of one."""

import json
from pathlib import Path
from typing import Any

import pytest
from cleanrl_worker.schedule import PRESETS, CurriculumStage, resolve
from helpers import messages, run, start

pytest.importorskip("minigrid", reason="needs extra minigrid")

STAGES = [
    {"env_id": "BabyAI-GoToRedBallNoDists-v0", "steps": 150},
    {"env_id": "BabyAI-GoToRedBall-v0", "condition": "episodes>=4|steps>=3000"},
    {"env_id": "BabyAI-GoToObj-v0"},
]


def config(**changes: Any) -> dict[str, Any]:
    return {
        "algo": "ppo",
        "env_id": "BabyAI-GoToRedBallNoDists-v0",
        "total_timesteps": 1024,
        "seed": 1,
        "extras": {
            "algo_params": {"num_steps": 64, "update_epochs": 1},
            "checkpoint_interval": 512,
            "curriculum_schedule": STAGES,
            **changes,
        },
    }


def test_training_goes_through_all_stages_and_resumes_in_the_right_one(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", config())
    stages = messages(whole, "stage")
    assert [stage["name"] for stage in stages] == [stage["env_id"] for stage in STAGES]
    assert [stage["index"] for stage in stages] == [1, 2, 3]
    assert 150 <= stages[1]["step"] < stages[2]["step"]

    last = tmp_path / "whole" / "runs" / "test" / messages(whole, "checkpoint")[-1]["path"]
    at_end = json.loads((last / "state.json").read_text())["curriculum"]
    assert at_end["_curriculum_index"] == 2
    more = config(mode="resume_training", checkpoint_path=str(last))
    resumed = run(tmp_path / "more", {**more, "total_timesteps": 1536})
    assert [stage["index"] for stage in messages(resumed, "stage")] == [3]


def test_conditions() -> None:
    assert CurriculumStage("A").until == "steps>=100000"
    assert CurriculumStage("A", steps=5, condition="episode_return >= 0.5 | episodes>=3").until == (
        "steps>=5|episode_return>=0.5|episodes>=3"
    )
    assert not CurriculumStage("A", condition="reward>=1").is_valid
    names = {name: [stage.env_id for stage in resolve(name)] for name in PRESETS}
    goto = ("GoToRedBallNoDists", "GoToRedBall", "GoToObj", "GoToLocal")
    sizes = ("5x5", "6x6", "8x8", "16x16")
    assert names == {
        "BABYAI_GOTO_CURRICULUM": [f"BabyAI-{name}-v0" for name in goto],
        "BABYAI_DOORKEY_CURRICULUM": [f"MiniGrid-DoorKey-{size}-v0" for size in sizes],
    }


def test_a_mean_return_takes_episodes_of_its_own_stage_and_enough_of_them() -> None:
    from cleanrl_worker.wrappers.curriculum import ENOUGH_EPISODES, Curriculum

    told: list[str] = []
    stages = [CurriculumStage(name, condition="episode_return>=0.5|steps>=100000") for name in "ABC"]
    curriculum = Curriculum(stages, lambda index, stage: told.append(stage.env_id))
    for _ in range(ENOUGH_EPISODES - 1):
        assert curriculum.next_task() == "A"
        curriculum.episode_ended("A", 1.0, 10)
    assert curriculum.next_task() == "A", "too few episodes to judge by"
    curriculum.episode_ended("A", 1.0, 10)
    for _ in range(ENOUGH_EPISODES):
        assert curriculum.next_task() == "B"
        # Other environments are still in stage A, which is easy by now.
        curriculum.episode_ended("A", 1.0, 10)
    again = Curriculum(stages, lambda index, stage: told.append(stage.env_id))
    again.restore(curriculum.state())
    for _ in range(ENOUGH_EPISODES):
        assert again.next_task() == "B"
        again.episode_ended("B", 0.6, 10)
    assert again.next_task() == "C"
    assert told == ["A", "B", "B", "C"]


def test_tasks_are_swapped_by_syllabus_own_kind_of_wrapper() -> None:
    from cleanrl_worker.wrappers.curriculum import BabyAITaskWrapper
    from syllabus.core import ReinitTaskWrapper

    assert issubclass(BabyAITaskWrapper, ReinitTaskWrapper)


@pytest.mark.parametrize(
    ("stages", "field", "words"),
    [
        ([], "extras.curriculum_schedule", "at least one stage"),
        ([{**STAGES[0], "condition": "luck>=1"}], "extras.curriculum_schedule[0].condition", "episode_return>=X"),
        ([STAGES[0], {"env_id": "CartPole-v1"}], "extras.curriculum_schedule[1].env_id", "with the spaces of"),
        ([STAGES[1]], "env_id", "an environment of the schedule"),
    ],
)
def test_bad_schedules_are_refused(tmp_path: Path, stages: list[Any], field: str, words: str) -> None:
    done = start(tmp_path, config(curriculum_schedule=stages), "--dry-run", "--json")
    assert done.returncode == 2
    (error,) = json.loads(done.stdout)["errors"]
    assert error["field"] == field and words in error["message"]
