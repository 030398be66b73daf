"""What is read from a script without running it."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY
from cleanrl_worker.scripts import NotAScript, read_script


@pytest.mark.parametrize("name", DEFAULT_ALGO_REGISTRY)
def test_every_registered_script_can_be_read(name: str) -> None:
    script = DEFAULT_ALGO_REGISTRY[name].script
    schema = script.params_schema()
    assert {"learning_rate", "policy_lr"} & set(schema["properties"])
    assert "env_id" not in schema["properties"]
    line = script.path.read_text().splitlines()[script.main_loop.line - 1]
    assert line.strip().startswith(f"for {script.main_loop.target} in range(")


def test_types_and_defaults_come_from_the_scripts_own_parser() -> None:
    properties = read_script("cleanrl.ppo").params_schema()["properties"]
    assert properties["learning_rate"] == {
        "type": "number",
        "description": "the learning rate of the optimizer",
        "default": 2.5e-4,
    }
    assert properties["anneal_lr"]["type"] == "boolean"
    assert properties["num_envs"]["type"] == "integer"
    assert properties["target_kl"]["anyOf"] == [{"type": "number"}, {"type": "null"}]


def test_values_become_the_scripts_flags() -> None:
    script = read_script("cleanrl.ppo")
    argv = script.argv({"learning_rate": 1e-3, "anneal_lr": False, "target_kl": None})
    assert argv == ["--learning-rate", "0.001", "--anneal-lr", "False"]


def test_the_loop_carries_what_is_rebound_in_it() -> None:
    assert {"next_obs", "next_done", "global_step"} <= read_script("cleanrl.ppo").main_loop.carried
    assert {"alpha", "obs"} <= read_script("cleanrl.sac_continuous_action").main_loop.carried
    assert "q_state" in read_script("cleanrl.dqn_jax").main_loop.carried


def test_reading_imports_neither_torch_nor_gym() -> None:
    code = """
        import sys
        from cleanrl_worker.runtime import CleanRLWorkerRuntime
        CleanRLWorkerRuntime().describe()
        heavy = {"torch", "gym", "gymnasium", "jax"} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_what_is_no_script_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_parser.py").write_text('if __name__ == "__main__":\n    for _ in range(3):\n        pass\n')
    (tmp_path / "no_loop.py").write_text(
        "import argparse\ndef parse_args():\n    return argparse.ArgumentParser().parse_args()\n"
    )
    with pytest.raises(NotAScript, match="no function parse_args"):
        read_script("no_parser")
    with pytest.raises(NotAScript, match="no main loop"):
        read_script("no_loop")
    with pytest.raises(NotAScript, match="not_there"):
        read_script("not_there")
