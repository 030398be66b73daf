"""Where things lie on disk: one `Home` names every file that is shared between processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLE = "MOSAIC_HOME"
# Between the id of a run and the name of its child run.
CHILD_MARK = ":"
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Home:
    """The folder that holds all state of one installation: `var/` of the checkout unless MOSAIC_HOME says else."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        given = os.environ.get(HOME_VARIABLE)
        return cls(Path(given).expanduser().resolve() if given else CHECKOUT / "var")

    @property
    def trainer(self) -> Path:
        return self.root / "trainer"

    @property
    def runs(self) -> Path:
        return self.trainer / "runs"

    @property
    def registry(self) -> Path:
        return self.trainer / "registry.sqlite"

    @property
    def daemon_lock(self) -> Path:
        return self.trainer / "daemon.lock"

    @property
    def daemon_info(self) -> Path:
        """pid, address and version of the daemon that holds the lock."""
        return self.trainer / "daemon.json"

    @property
    def daemon_log(self) -> Path:
        return self.trainer / "daemon.log"

    @property
    def token(self) -> Path:
        return self.trainer / "token"

    @property
    def envs(self) -> Path:
        return self.root / "envs"

    def run(self, run_id: str) -> RunFolder:
        """The folder of a run, or of a child run (`<run_id>:<child>`)."""
        run_id, _, child = run_id.partition(CHILD_MARK)
        folder = RunFolder(self.runs / run_id)
        return folder.child(child) if child else folder


@dataclass(frozen=True)
class RunFolder:
    """One run: its folder and the files in it."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def children(self) -> Path:
        """A folder for each child run, with a store of its own."""
        return self.path / "children"

    def child(self, name: str) -> RunFolder:
        return RunFolder(self.children / name)

    @property
    def job(self) -> Path:
        return self.path / "job.json"

    @property
    def launch(self) -> Path:
        return self.path / "launch.json"

    @property
    def lock(self) -> Path:
        return self.path / "shepherd.lock"

    @property
    def shepherd(self) -> Path:
        return self.path / "shepherd.json"

    @property
    def control(self) -> Path:
        return self.path / "control"

    @property
    def store(self) -> Path:
        return self.path / "run.sqlite"

    @property
    def exit(self) -> Path:
        return self.path / "exit.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def worker_log(self) -> Path:
        return self.logs / "worker.log"

    @property
    def malformed_log(self) -> Path:
        return self.logs / "malformed.log"

    @property
    def shepherd_log(self) -> Path:
        return self.logs / "shepherd.log"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def videos(self) -> Path:
        return self.path / "videos"

    @property
    def analytics(self) -> Path:
        return self.path / "analytics.json"
