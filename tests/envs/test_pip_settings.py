"""uv does not read pip's configuration: we hand it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.envs.build import torch_backend
from mosaic.envs.errors import InstallFailed
from mosaic.envs.tools import Tools, pip_settings_for_uv, reason


def test_later_sections_win_and_lists_are_split() -> None:
    listed = [
        "global.find-links='/a b\\n/c'",
        "global.extra-index-url='https://one.example/simple https://two.example/simple'",
        "global.index-url='https://old.example/simple'",
        "install.index-url='https://mirror.example/simple'",
        ":env:.find-links='/wheels'",
        "global.timeout='60'",
        "list.format='columns'",
    ]
    assert pip_settings_for_uv(listed) == {
        "UV_FIND_LINKS": "/wheels",
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_nothing_configured_is_nothing_set() -> None:
    assert pip_settings_for_uv([]) == {}


def test_a_configuration_that_pip_cannot_read_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text("global]\nfind-links = /wheels\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(InstallFailed, match=r"pip config list.*pip\.conf") as failure:
        Tools.of_this_process().pip_settings  # noqa: B018 - asking is the deed
    assert "\n" not in str(failure.value)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (tmp_path / "requirements.lock").write_text("numpy==2.0\ntorch==2.13.0\n")
    return tmp_path / "requirements.lock"


@pytest.mark.parametrize(
    ("find_links", "chosen"),
    [
        ("", ["--torch-backend=auto"]),
        ("{empty},/not/there", ["--torch-backend=auto"]),
        ("/not/there,{full}", []),
        ("https://wheels.example/", []),
    ],
)
def test_uv_chooses_the_torch_build_where_none_is_provided(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find_links: str, chosen: list[str]
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "torch-2.13.0-py3-none-any.whl").touch()
    monkeypatch.setenv("UV_FIND_LINKS", find_links.format(empty=empty, full=full))
    assert torch_backend([lock], Tools.of_this_process()) == chosen


def test_a_worker_without_torch_or_a_choice_made_already(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", "")
    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    assert torch_backend([lock], Tools.of_this_process()) == []
    monkeypatch.delenv("UV_TORCH_BACKEND")
    lock.write_text("torchrl==1.0\npytorch==1\n")
    assert torch_backend([lock], Tools.of_this_process()) == []


def test_the_reason_is_one_line_without_the_drawing() -> None:
    said = [
        "Resolved 3 packages",
        "  \u00d7 No solution found when resolving dependencies:",
        "  ╰─▶ Because there is no version of a==9 and you require a==9, we can",
        "      conclude that your requirements are unsatisfiable.",
    ]
    assert reason(said) == (
        "No solution found when resolving dependencies: Because there is no version of a==9 and you require a==9,"
        " we can conclude that your requirements are unsatisfiable."
    )
    assert reason(["one", "the last"]) == "the last"
    assert reason([]) == ""
