"""Installing workers: from a folder, by name, by requirement; what is asked for is what is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic.envs import InstalledWorker, InstallFailed, WorkerEnvs, WorkerMissing

MakeWorker = Callable[..., Path]
MakeWheel = Callable[..., Path]


UV = Path(sys.prefix, "bin", "uv")


def quiet(line: str) -> None:
    pass


def modules_of(worker: InstalledWorker) -> set[str]:
    program = "import pkgutil; print(*(m.name for m in pkgutil.iter_modules()))"
    return set(
        subprocess.run([worker.python, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def one_line(failure: pytest.ExceptionInfo[InstallFailed]) -> str:
    text = str(failure.value)
    assert "\n" not in text
    return text


def test_a_folder_with_a_worker(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    folder = make_worker("tiny")
    assert not envs.is_known("tiny")
    lines: list[str] = []
    worker = envs.install(str(folder), report=lines.append)

    assert (worker.name, worker.module, worker.distribution, worker.version) == (
        "tiny",
        "tiny_worker",
        "tiny-worker",
        "1.2.3",
    )
    assert worker.source == str(folder)
    assert worker.editable
    assert any("tiny-worker==1.2.3" in line for line in lines), lines
    assert envs.get("tiny") == worker
    assert envs.installed() == [worker]
    assert envs.is_known("tiny")
    # It runs there, with the contract's package and its two dependencies, and with nothing of the platform's others.
    modules = modules_of(worker)
    assert {"tiny_worker", "mosaic", "msgspec", "numpy"} <= modules
    assert not {"fastapi", "click", "pip"} & modules
    program = "import mosaic.worker, tiny_worker.cli"
    subprocess.run([worker.python, "-c", program], check=True, stdout=subprocess.DEVNULL, cwd=worker.folder)


def test_files_are_hard_links_into_uv_s_cache(envs: WorkerEnvs, make_worker: MakeWorker, tmp_path: Path) -> None:
    worker = envs.install(str(make_worker("tiny")), report=quiet)
    (library,) = worker.folder.glob("venv/lib/python3*/site-packages/numpy/_core/_multiarray_umath*.so")
    cache = subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    if Path(cache).stat().st_dev != tmp_path.stat().st_dev:
        pytest.skip("uv's cache is on another file system")
    assert library.stat().st_nlink > 1


def test_again_does_nothing_until_the_pins_change(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    folder = make_worker("tiny", locks={"requirements.lock": "msgspec\nnumpy\n"})
    first = envs.install(str(folder), report=quiet)
    lines: list[str] = []
    assert envs.install(str(folder), report=lines.append) == first
    assert lines == ["tiny is installed"]
    assert not envs.is_outdated(first)

    (folder / "requirements.lock").write_text("msgspec\nnumpy\nmdurl\n")
    assert envs.is_outdated(first)
    second = envs.install(str(folder), report=quiet)
    assert second.installed > first.installed
    assert "mdurl" in modules_of(second)
    assert not envs.is_outdated(second)


def test_one_of_ours_by_name(envs: WorkerEnvs, catalogue: Path, make_worker_in: MakeWorker) -> None:
    folder = make_worker_in(catalogue, "tiny")
    (before,) = envs.available()
    assert (before.name, before.folder, before.installed) == ("tiny", folder, None)
    assert envs.is_known("tiny")
    with pytest.raises(WorkerMissing, match="is not installed; install it: mosaic worker install tiny"):
        envs.get("tiny")
    worker = envs.install("tiny", report=quiet)
    assert envs.available()[0].installed == worker
    # By its folder it is the same worker.
    assert envs.install(str(folder), report=quiet) == worker


def test_a_third_party_cannot_take_the_name_of_one_of_ours(
    envs: WorkerEnvs, catalogue: Path, make_worker_in: MakeWorker, tmp_path: Path
) -> None:
    make_worker_in(catalogue, "tiny")
    other = make_worker_in(tmp_path / "other", "tiny")
    with pytest.raises(InstallFailed) as failure:
        envs.install(str(other), report=quiet)
    assert "which is one of MOSAIC's own" in one_line(failure)
    assert envs.installed() == []


def test_a_requirement_whose_worker_is_found_in_what_was_installed(
    envs: WorkerEnvs, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pip's find-links reach uv: there is no other place that could have this package.
    wheel = make_wheel("some-worker-of-others", worker="others", metadata="Requires-Dist: mosaic-rl\n")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    worker = envs.install("some-worker-of-others>=1", report=quiet)
    assert (worker.name, worker.module, worker.version) == ("others", "some_worker_of_others", "1.0")
    assert worker.source == "some-worker-of-others>=1"
    assert not worker.editable
    assert envs.describe("others")["title"] == "Tiny"
    assert envs.install("some-worker-of-others>=1", report=quiet) == worker
    assert sorted(path.name for path in envs.folder.iterdir() if path.is_dir()) == ["others"]


def test_a_requirement_that_is_no_worker_leaves_nothing(
    envs: WorkerEnvs, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel("just-a-library")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with pytest.raises(InstallFailed) as failure:
        envs.install("just-a-library", report=quiet)
    assert "just-a-library is not a worker: it offers no entry point" in one_line(failure)
    assert [path for path in envs.folder.iterdir() if path.is_dir()] == []


def test_pip_s_configuration_file_counts_too(
    envs: WorkerEnvs, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = make_wheel("some-worker-of-others", worker="others")
    (tmp_path / "pip.conf").write_text(f"[global]\nfind-links = {wheel.parent}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert envs.install("some-worker-of-others", report=quiet).name == "others"


def test_extras_have_locks_of_their_own_and_add_up(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    folder = make_worker(
        "tiny",
        project="optional-dependencies = {urls = ['mdurl'], names = ['idna']}",
        locks={
            "requirements.lock": "msgspec\nnumpy\n",
            "requirements-urls.lock": "mdurl\n",
            "requirements-names.lock": "idna\n",
        },
    )
    with pytest.raises(InstallFailed) as failure:
        envs.install(str(folder), extras=["jax"], report=quiet)
    assert one_line(failure) == "tiny-worker has no extra 'jax'; it has: names, urls"
    with pytest.raises(InstallFailed) as failure:
        envs.install(f"{folder}[urls, jax]", report=quiet)
    assert one_line(failure) == "tiny-worker has no extra 'jax'; it has: names, urls"

    assert envs.install(str(folder), extras=["urls"], report=quiet).extras == ("urls",)
    both = envs.install(f"{folder}[names]", report=quiet)
    assert both.extras == ("names", "urls")
    assert {"mdurl", "idna"} <= modules_of(both)


def test_a_last_step_without_dependencies_that_ignores_requires_python(
    envs: WorkerEnvs, make_worker: MakeWorker, make_wheel: MakeWheel
) -> None:
    odd = make_wheel("odd-upstream", metadata="Requires-Python: <3\nRequires-Dist: no-such-package-anywhere==99\n")
    folder = make_worker("tiny", settings=f"no-deps = ['odd-upstream @ {odd.as_uri()}']")
    worker = envs.install(str(folder), report=quiet)
    assert "odd_upstream" in modules_of(worker)


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ({}, "tiny-worker is not a worker: it offers no entry point in the group 'mosaic.workers'"),
        ({"one": "tiny_worker:a", "two": "tiny_worker:b"}, "tiny-worker offers several workers (one, two)"),
        ({"Not/a/name": "tiny_worker:a"}, "tiny-worker names its worker 'Not/a/name'; allowed: small letters"),
    ],
)
def test_what_is_no_worker_is_refused_and_leaves_nothing(
    envs: WorkerEnvs, make_worker: MakeWorker, workers: dict[str, str], told: str
) -> None:
    folder = make_worker("tiny", workers=workers)
    with pytest.raises(InstallFailed) as failure:
        envs.install(str(folder), report=quiet)
    assert told in one_line(failure)
    assert not envs.folder.exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("./not-there", "no worker in ./not-there: there is no such folder"),
        ("--index-url=x", "cannot install '--index-url=x': give one of"),
        ("a b", "cannot install 'a b'"),
        ("", "cannot install ''"),
    ],
)
def test_what_cannot_be_installed_is_refused_at_once(envs: WorkerEnvs, given: str, told: str) -> None:
    with pytest.raises(InstallFailed) as failure:
        envs.install(given, report=quiet)
    assert told in one_line(failure)


def test_a_folder_without_a_project(envs: WorkerEnvs, tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match=r"it has no pyproject\.toml"):
        envs.install(str(tmp_path), report=quiet)


def test_a_python_that_cannot_be_had(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    folder = make_worker("tiny", settings="python = '3.99'")
    with pytest.raises(InstallFailed) as failure:
        envs.install(str(folder), report=quiet)
    assert f"installing {folder} failed: it wants Python 3.99; none that works is on this machine" in one_line(failure)


def test_a_failed_install_says_why_and_leaves_what_was_there(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    folder = make_worker("tiny", locks={"requirements.lock": "msgspec\nnumpy\n"})
    worker = envs.install(str(folder), report=quiet)
    (folder / "requirements.lock").write_text("msgspec==0.0.0.1\nnumpy\n")
    with pytest.raises(InstallFailed) as failure:
        envs.install(str(folder), report=quiet)
    text = one_line(failure)
    assert "there is no version of msgspec==0.0.0.1" in text
    log = Path(text.rpartition("(all output: ")[2].rstrip(")"))
    assert "msgspec==0.0.0.1" in log.read_text()
    assert envs.get("tiny") == worker
    subprocess.run([worker.python, "-c", "import tiny_worker, msgspec"], check=True)


def test_remove(envs: WorkerEnvs, make_worker: MakeWorker) -> None:
    worker = envs.install(str(make_worker("tiny")), report=quiet)
    envs.remove("tiny")
    assert not worker.folder.exists()
    assert envs.installed() == []
    with pytest.raises(WorkerMissing, match="worker 'tiny' is not installed"):
        envs.remove("tiny")


@pytest.mark.parametrize("name", ["", ".", "..", "../home", "a/b", ".tiny.new", "x" * 65, "a\0b"])
def test_a_name_never_leads_out_of_the_folder(envs: WorkerEnvs, name: str) -> None:
    envs.folder.mkdir(parents=True)
    assert not envs.is_known(name)
    with pytest.raises(WorkerMissing):
        envs.get(name)
    with pytest.raises(WorkerMissing):
        envs.remove(name)
    assert envs.folder.is_dir()
