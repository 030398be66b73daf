"""A script under way: its main loop obeys the run's controls, its environments are watched, its state is saved.

The script's own `range` is the door. In the script's globals the name `range` stands for `Session.range`, and where the
main loop asks for its range it gets one that pauses, saves, stops and resumes between two rounds. Ending it early is
an ordinary end for the script: it closes its environments and its writer as ever.
"""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from cleanrl_worker.fastlane import PREFIX, watched
from cleanrl_worker.job import ScriptJob, Tracking
from cleanrl_worker.schedule import CurriculumStage
from cleanrl_worker.telemetry import EpisodeWatch, ScriptTelemetry
from mosaic.fastlane import Settings
from mosaic.worker import Command, Run

if TYPE_CHECKING:
    from cleanrl_worker.snapshot import Snapshot
    from cleanrl_worker.tracking import Tracker
    from cleanrl_worker.watching import VectorWatch
    from cleanrl_worker.wrappers.curriculum import Curriculum

# How long a stop waits for the end of a round before it interrupts one (the platform's grace is 30 s).
STOP_PATIENCE_S = 8.0

_current: list[Session] = []


def current() -> Session | None:
    """The session of this process, if it runs a script for a worker."""
    return _current[-1] if _current else None


@contextmanager
def acting_as_current(session: Any) -> Iterator[None]:
    """Let environments be made by `session` for a while, in a process that runs no script."""
    _current.append(session)
    try:
        yield
    finally:
        _current.remove(session)


class StopScript(BaseException):
    """Ends a script in the middle of a round. Not an Exception: scripts must not swallow it."""


class Session:
    def __init__(self, job: ScriptJob, run: Run) -> None:
        self.job = job
        self.run = run
        self.control = run.control
        self.telemetry = ScriptTelemetry(run.telemetry)
        self.tensorboard_folder = str(run.folder / job.tensorboard_dir)
        self.script: dict[str, Any] = {}
        self.stopped = False
        self._environments = 0
        self._curriculum: Curriculum | None = None
        self._tracker: Tracker | None = None
        self._fastlane = Settings.from_environment(PREFIX)
        self._rounds = 0
        self._round_step = 0
        self._saved_step: int | None = None
        self._save_wanted = False
        self._stop_asked: float | None = None

    def __enter__(self) -> Session:
        _current.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _current.remove(self)
        self.telemetry.flush()
        if self._tracker is not None:
            self._tracker.close()

    def summary(self) -> dict[str, Any]:
        return {"steps": self.step, "episodes": self.telemetry.episodes}

    # The script's environments.

    def make_env(self, env_id: Any, options: Mapping[str, Any]) -> Any:
        from cleanrl_worker import environments

        environments.register(env_id)
        wants_frames = self.job.render or self._fastlane.is_on

        def make(name: str) -> Any:
            return environments.plain_make(name, **environments.make_options(name, options, wants_frames))

        env = self._curriculum_env(make) if self.job.curriculum else make(env_id)
        slot, self._environments = self._environments, self._environments + 1
        env = EpisodeWatch(watched(env, self._fastlane, slot), self, slot)
        return environments.prepare(env, self.job.observation)

    def watch_vector(self, count: int, pictures: Callable[[], Any] | None = None) -> VectorWatch:
        """What hears of every step of environments that come as a whole vector."""
        from cleanrl_worker.telemetry import VectorEpisodes

        return VectorEpisodes(self, count, self._fastlane, pictures)

    def _curriculum_env(self, make: Callable[[str], Any]) -> Any:
        from cleanrl_worker.wrappers.curriculum import Curriculum, CurriculumEnvironment

        if self._curriculum is None:
            self._curriculum = Curriculum(self.job.curriculum, self._stage_begins)
            if self.run.resume_folder is not None:
                from cleanrl_worker.snapshot import read_state

                self._curriculum.restore(read_state(self.run.resume_folder).curriculum)
        return CurriculumEnvironment(self._curriculum, make)

    def _stage_begins(self, index: int, stage: CurriculumStage) -> None:
        self.telemetry.flush()
        self.run.telemetry.stage(stage.env_id, index=index + 1, total=len(self.job.curriculum), step=self.step)

    @property
    def seed(self) -> int:
        return self.job.seed

    @property
    def step(self) -> int:
        return int(self.script.get("global_step", 0))

    def episode_ended(self, env: int, episode_return: float, length: int, step: int | None = None) -> None:
        self.telemetry.episode(self.step if step is None else step, env, episode_return, length)

    def attend_in_step(self) -> None:
        """Something was asked: pause here and now, leave the rest to the end of the round if that is near."""
        self._take_commands()
        if self._stop_asked is None or time.monotonic() - self._stop_asked <= STOP_PATIENCE_S:
            return
        if self.script:
            # The networks are as they were when this round began: only its steps are lost.
            self.script["global_step"] = self._round_step
            self._save(with_environments=False)
        # Before the main loop (RND plays at random there) nothing has been learned that could be lost.
        raise StopScript

    # The script's main loop.

    def range(self, *bounds: int) -> range | Iterator[int]:
        frame = sys._getframe(1)
        rounds = builtins.range(*bounds)
        if not self._is_main_loop(frame):
            return rounds
        self.script = frame.f_globals
        del self.script["range"]
        return self._main_loop(rounds)

    def _is_main_loop(self, frame: FrameType) -> bool:
        return frame.f_lineno == self.job.loop_line and frame.f_code.co_name == "<module>"

    def _main_loop(self, rounds: range) -> Iterator[int]:
        self._resume()
        if self.job.tracking is not None:
            self._track(self.job.tracking)
        interval = self.job.checkpoint_interval
        for number in rounds[self._rounds :]:
            if self.control.pending:
                self._take_commands()
            if self._save_wanted:
                self._save()
            if self.stopped:
                break
            if interval and self.step - (self._saved_step or 0) >= interval:
                self._save()
            self._round_step = self.script.get("global_step", 0)
            yield number
            self._rounds += 1
        self.telemetry.flush()
        if self._saved_step != self.step:
            self._save()

    def _track(self, tracking: Tracking) -> None:
        from cleanrl_worker.tracking import Tracker

        self._tracker = Tracker(tracking, self.run, vars(self.script["args"]))
        self.telemetry.listener = self._tracker.log

    def _take_commands(self) -> None:
        self.telemetry.flush()
        command = self.run.poll()
        if command is Command.CHECKPOINT:
            self._save_wanted = True
        elif command is Command.STOP and self._stop_asked is None:
            self._stop_asked = time.monotonic()
            self.stopped = True

    # Checkpoints.

    def _resume(self) -> None:
        folder = self.run.resume_folder
        if folder is None:
            return
        from cleanrl_worker.snapshot import restore

        state = restore(self.script, folder)
        self._rounds = state.rounds
        self._saved_step = state.step
        self.telemetry.go_on_from(state.step)
        if not state.exact:
            lost = ", ".join(state.lost[:3]) + (", ..." if len(state.lost) > 3 else "")
            self.run.telemetry.log(f"resumed at step {state.step}; the environments start anew (not kept: {lost})")

    def _save(self, *, with_environments: bool = True) -> Path:
        from cleanrl_worker.snapshot import capture

        snapshot = capture(
            self.script,
            self.job.carried_names,
            self._rounds,
            with_environments=with_environments,
            with_replay=self.job.save_replay_buffer,
            curriculum=self._curriculum.state() if self._curriculum is not None else {},
        )
        self._save_wanted = False
        self._saved_step = snapshot.state.step
        return self._write(snapshot)

    def _write(self, snapshot: Snapshot) -> Path:
        envs = self.script["envs"]
        return self.run.save_checkpoint(
            snapshot.state.step,
            lambda folder: snapshot.write(folder, self.job.algorithm),
            algorithm=self.job.algorithm,
            environment=self.job.env_id,
            seed=self.job.seed,
            observation_space=str(envs.single_observation_space),
            action_space=str(envs.single_action_space),
            extra={
                "arguments": vars(self.script["args"]),
                "exact": snapshot.state.exact,
                "curriculum": [stage.env_id for stage in self.job.curriculum],
            },
            keep=self.job.keep_checkpoints or None,
        )
