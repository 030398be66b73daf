"""Starting runs: `train`, `submit`, `script`, and what refuses them."""

from __future__ import annotations

import json
from typing import Any


def test_train_runs_with_the_config_that_its_flags_say(mosaic: Any) -> None:
    view = mosaic.short_run("--algorithm", "sarsa", "--learning-rate", "0.5", "--tag", "blue", name="flags")
    assert view["state"] == "SUCCEEDED"
    assert view["name"] == "flags"
    assert view["tags"] == ["blue"]
    assert view["config"]["algorithm"] == "sarsa"
    assert view["config"]["hyperparameters"] == {"learning_rate": 0.5}
    assert view["step"] == view["config"]["total_timesteps"] == 3000


def test_flags_win_over_the_config_file(mosaic: Any) -> None:
    base = {"algorithm": "sarsa", "seed": 1, "hyperparameters": {"discount": 0.5}}
    (mosaic.cwd / "base.json").write_text(json.dumps(base))
    printed = mosaic("train", "tabular", "--config", "base.json", "--seed", "2", "--epsilon-end", "0", "--print-config")
    assert json.loads(printed.stdout) == {
        "algorithm": "sarsa", "seed": 2, "hyperparameters": {"discount": 0.5, "epsilon_end": 0.0},
    }  # fmt: skip
    from_stdin = mosaic("train", "tabular", "--config", "-", "--print-config", input='{"seed": 3}')
    assert json.loads(from_stdin.stdout) == {"seed": 3}


def test_train_refuses_what_the_schema_does_before_anything_starts(mosaic: Any) -> None:
    done = mosaic("train", "tabular", "--learning-rate", "2", code=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "'--learning-rate': got '2', allowed: number > 0 and <= 1" in done.stderr
    assert "did you mean --learning-rate?" in mosaic("train", "tabular", "--learnin-rate", "2", code=2).stderr
    assert "did you mean 'tabular'?" in mosaic("train", "tabluar", code=4).stderr


def test_what_only_the_worker_can_refuse_is_refused_like_the_rest(mosaic: Any) -> None:
    done = mosaic("train", "tabular", "--env-id", "CartPole-v1", "--wait", code=2)
    assert "field 'env_id': got \"CartPole-v1\" (string), allowed: an environment with a discrete" in done.stdout


def test_help_of_a_worker_shows_its_hyperparameters(mosaic: Any) -> None:
    text = " ".join(mosaic("train", "tabular", "--algorithm", "sarsa", "--help").stdout.split())
    assert "Hyperparameters of sarsa" in text
    assert "--learning-rate NUMBER Step size of the update [default: 0.1; > 0 and <= 1]" in text
    assert "--algorithm" in text
    assert "--run-id" not in text


def test_submit_takes_all_three_forms_of_a_config_file(mosaic: Any) -> None:
    flat = {"total_timesteps": 1000, "seed": 4}
    file = mosaic.cwd / "config.json"
    file.write_text(json.dumps(flat))
    first = mosaic.json("submit", "config.json", "--worker", "tabular", "--name", "flat", "--wait")
    assert (first["state"], first["config"]["seed"]) == ("SUCCEEDED", 4)
    # A run's own job.json is a full descriptor; submitted again it becomes another run.
    again = mosaic.json("submit", f"{first['folder']}/job.json", "--priority", "3", "--wait")
    assert again["run_id"] != first["run_id"]
    assert (again["config"]["seed"], again["priority"]) == (4, 3)
    file.write_text(json.dumps({"worker": "tabular", "config": flat, "retry": {"policy": "resume", "limit": 2}}))
    third = mosaic.json("submit", "config.json", "--cpus", "1", "--wait")
    assert third["retry"] == {"policy": "resume", "limit": 2}


def test_a_bad_config_is_refused_field_by_field(mosaic: Any) -> None:
    (mosaic.cwd / "bad.json").write_text('{"total_timesteps": 0, "algorithm": "sarse", "sed": 1}')
    done = mosaic("submit", "bad.json", "--worker", "tabular", code=2)
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert any("'total_timesteps': got 0 (integer), allowed: integer >= 1" in line for line in lines)
    assert any("did you mean 'sarsa'?" in line for line in lines)
    assert any("did you mean 'seed'?" in line for line in lines)
    answer = mosaic.json("submit", "bad.json", "--worker", "tabular", code=2)
    assert {error["field"] for error in answer["errors"]} == {"total_timesteps", "algorithm", "sed"}


def test_files_that_cannot_be_submitted_are_told_in_one_line(mosaic: Any) -> None:
    (mosaic.cwd / "broken.json").write_text("{")
    (mosaic.cwd / "list.json").write_text("[]")
    (mosaic.cwd / "flat.json").write_text("{}")
    (mosaic.cwd / "half.json").write_text('{"metadata": {}}')
    for file, expected in (
        ("absent.json", "No such file"),
        ("broken.json", "not valid JSON"),
        ("list.json", "got a JSON list, allowed: an object"),
        ("flat.json", "say --worker NAME"),
        ("half.json", "metadata.worker.name"),
    ):
        done = mosaic("submit", file, code=2)
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1
    assert "got 'sometimes', allowed: none, restart[:N]" in mosaic("submit", "x", "--retry", "sometimes", code=2).stderr


SCRIPT = """#!/bin/sh
# @description Two phases
# @phases one, two
echo "from $1" >&2
"""


def test_a_shell_script_is_a_run(mosaic: Any) -> None:
    (mosaic.cwd / "phases.sh").write_text(SCRIPT)
    view = json.loads(mosaic("script", "--name", "sh", "--wait", "--json", "phases.sh", "here").stdout)["run_id"]
    shown = mosaic.json("show", view)[0]
    assert shown["state"] == "SUCCEEDED"
    assert shown["config"]["description"] == "Two phases"
    assert "from here" in mosaic("logs", "sh").stdout


def test_a_watched_run_that_fails_gives_its_reason_and_exit_code_1(mosaic: Any) -> None:
    (mosaic.cwd / "fails.sh").write_text("#!/bin/sh\nexit 7\n")
    done = mosaic("script", "--watch", "fails.sh", code=1)
    assert "FAILED" in done.stdout
    assert "7" in done.stdout.splitlines()[-1]
