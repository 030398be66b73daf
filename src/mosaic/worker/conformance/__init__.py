"""The conformance kit: does a worker keep the contract?

`mosaic worker check NAME` runs it. A third party runs the same in its own test suite:

    from mosaic.worker.conformance import WorkerContractTests

    class TestMyWorker(WorkerContractTests):
        command = (sys.executable, "-m", "my_worker.cli")
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mosaic.worker.conformance.checks import CHECKS
from mosaic.worker.conformance.subject import CheckFailed, CheckSkipped, Subject

__all__ = ["CHECKS", "CheckFailed", "CheckResult", "CheckSkipped", "Subject", "WorkerContractTests", "run_checks"]

Check = Callable[[Subject, Path], None]


@dataclass(frozen=True)
class CheckResult:
    """How one check went; `ok` is None where it was skipped."""

    name: str
    title: str
    ok: bool | None
    detail: str = ""


def run_checks(command: Sequence[str], report: Callable[[CheckResult], None]) -> list[CheckResult]:
    """Run every check against a worker's command, reporting each as it ends."""
    subject = Subject(command)
    results = []
    for check in CHECKS:
        result = _run_check(check, subject)
        report(result)
        results.append(result)
    return results


def _run_check(check: Check, subject: Subject) -> CheckResult:
    title = (check.__doc__ or "").strip()
    with tempfile.TemporaryDirectory(prefix="mosaic-check-") as folder:
        try:
            check(subject, Path(folder))
        except CheckFailed as failure:
            return CheckResult(check.__name__, title, False, str(failure))
        except CheckSkipped as reason:
            return CheckResult(check.__name__, title, None, str(reason))
    return CheckResult(check.__name__, title, True)


class WorkerContractTests:
    """The same checks as test methods: give `command` in a subclass. Skipped checks pass."""

    command: ClassVar[Sequence[str]] = ()
    patience_s: ClassVar[float] = 120.0  # for whatever the worker takes long to do, its start above all
    _subjects: ClassVar[dict[tuple[str, ...], Subject]] = {}

    @classmethod
    def run_check(cls, check: Check) -> None:
        subject = cls._subjects.setdefault(tuple(cls.command), Subject(cls.command, patience_s=cls.patience_s))
        result = _run_check(check, subject)
        assert result.ok is not False, f"{result.title}: {result.detail}"


def _add_test(check: Check) -> None:
    def test(self: WorkerContractTests) -> None:
        self.run_check(check)

    test.__doc__ = check.__doc__
    setattr(WorkerContractTests, f"test_{check.__name__}", test)


for _check in CHECKS:
    _add_test(_check)
