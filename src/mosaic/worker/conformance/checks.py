"""The contract, check by check. Each takes a subject and a folder of its own, and raises CheckFailed with one line."""

from __future__ import annotations

import copy
import signal
from pathlib import Path
from typing import Any

from mosaic.worker import checkpoints
from mosaic.worker.capabilities import WorkerCapabilities
from mosaic.worker.checkpoints import CheckpointError
from mosaic.worker.conformance.subject import CheckFailed, CheckSkipped, Subject, WorkerProcess, last_line
from mosaic.worker.description import CONTRACT_VERSION, check_config, set_at, value_at
from mosaic.worker.messages import (
    TELEMETRY_VERSION,
    AnyMessage,
    Checkpoint,
    Episode,
    Heartbeat,
    Message,
    Metric,
    RunCompleted,
    RunFailed,
    RunStarted,
    Step,
)

# A budget that no check waits for.
ENDLESS = 10**9


def require(fine: bool, otherwise: str) -> None:
    if not fine:
        raise CheckFailed(otherwise)


def example(subject: Subject, run_id: str, *, endless: bool = False) -> dict[str, Any]:
    # A copy to the bottom: fields may lie in nested objects, and what one check sets is not the next one's.
    config = {**copy.deepcopy(subject.description["example_config"]), "run_id": run_id}
    if endless:
        path = subject.description["fields"]["total_steps"]
        if not path:
            raise CheckSkipped("the worker names no config field for its total steps")
        set_at(config, path, ENDLESS)
    return config


def claims(subject: Subject, capability: str) -> None:
    if not subject.description["capabilities"][capability]:
        raise CheckSkipped(f"the worker does not claim {capability}")


def working(process: WorkerProcess) -> int:
    """Wait until the worker trains; the answer is the step."""
    what = "first metric, episode or step"
    message = process.wait_for(Message, what, lambda message: isinstance(message, Metric | Episode | Step))
    assert isinstance(message, Metric | Episode | Step)
    return message.step


def describes_itself(subject: Subject, folder: Path) -> None:
    """--describe prints capabilities, schemas and an example config that fits them"""
    told = subject.description
    wanted = ("contract", "name", "version", "title", "capabilities", "fields", "config_schema", "algorithms")
    missing = [name for name in (*wanted, "example_config") if name not in told]
    require(not missing, f"--describe lacks {', '.join(missing)}")
    require(told["contract"] == CONTRACT_VERSION, f"contract is {told['contract']!r}, allowed: {CONTRACT_VERSION}")
    unknown = set(told["capabilities"]) ^ set(WorkerCapabilities.__dataclass_fields__)
    require(not unknown, f"capabilities and WorkerCapabilities differ in {', '.join(sorted(unknown))}")
    require(told["config_schema"].get("type") == "object", "config_schema is not the schema of an object")
    _, errors = check_config(told, {**told["example_config"], "run_id": "example"})
    require(not errors, f"example_config does not fit config_schema: {errors[0].message if errors else ''}")


def accepts_good_configs(subject: Subject, folder: Path) -> None:
    """--dry-run accepts the example config, flat and inside a job descriptor, and prints no telemetry"""
    config = example(subject, "check")
    for form, document in (("flat", config), ("nested", {"metadata": {"worker": {"config": config}}})):
        done = subject.dry_run(document)
        require(done.returncode == 0, f"{form} config: exit code {done.returncode}: {last_line(done.stderr)}")
        require(done.stdout == b"", f"{form} config: a dry run prints {done.stdout[:80]!r} on stdout")


def refuses_bad_configs(subject: Subject, folder: Path) -> None:
    """A bad config ends with exit code 2 and a line on stderr that names the field"""
    config = example(subject, "check")
    fields = subject.description["fields"]
    cases: list[tuple[str, Any, str]] = [
        ("unknown field", {**config, "no_such_field": 1}, "no_such_field"),
        ("not JSON", b'{"run_id": ', "JSON"),
        ("not an object", [], "object"),
    ]
    for role, value in (
        ("total_steps", "many"),
        ("total_steps", -1),
        ("algorithm", "no_such_algorithm"),
        ("seed", "x"),
    ):
        path = fields[role]
        if path:
            bad = copy.deepcopy(config)
            set_at(bad, path, value)
            cases.append((f"{path} = {value!r}", bad, path.split(".")[-1]))
    for title, document, name in cases:
        done = subject.dry_run(document)
        message = done.stderr.decode(errors="replace")
        require(done.returncode == 2, f"{title}: exit code {done.returncode}, allowed: 2")
        require(name in message, f"{title}: stderr does not name {name!r}: {last_line(done.stderr)}")
        require("Traceback" not in message, f"{title}: stderr shows a traceback instead of one clear line")


def tells_what_it_does(subject: Subject, folder: Path) -> None:
    """A run starts with run_started, ends with run_completed and exit code 0, and keeps stdout clean in between"""
    config = example(subject, "check-run")
    with subject.start(config, folder) as process:
        code = process.wait(subject.patience_s, "its start")
        require(code == 0, f"exit code {code} for the example config: {process.stderr_tail()}")
        require(not process.bad_lines, f"not telemetry: {process.bad_lines[0][:80]!r}" if process.bad_lines else "")
        _check_order(process.messages, "check-run")
    require((folder / "analytics.json").exists(), "no analytics.json in the run folder")


def _check_order(messages: list[AnyMessage], run_id: str) -> None:
    require(bool(messages) and isinstance(messages[0], RunStarted), "the first line is not run_started")
    first = messages[0]
    assert isinstance(first, RunStarted)
    require(first.run_id == run_id, f"run_started says run {first.run_id!r} instead of {run_id!r}")
    require(first.version == TELEMETRY_VERSION, f"telemetry version {first.version}, allowed: {TELEMETRY_VERSION}")
    require(isinstance(messages[-1], RunCompleted), f"the last line is {type(messages[-1]).__name__}, not RunCompleted")
    ends = [message for message in messages if isinstance(message, RunCompleted | RunFailed)]
    require(len(ends) == 1, f"{len(ends)} lines of run_completed or run_failed")
    step = -1
    for message in messages:
        if isinstance(message, Metric | Episode | Step):
            require(message.step >= step, f"steps run backwards: {step}, then {message.step}")
            step = message.step
    require(step >= 0, "not one metric, episode or step was told")


def sends_heartbeats(subject: Subject, folder: Path) -> None:
    """Heartbeats come at the interval that MOSAIC_HEARTBEAT_S gives"""
    with subject.start(example(subject, "check", endless=True), folder, heartbeat_s=0.2) as process:
        first = process.wait_for(Heartbeat, "first heartbeat")
        second = process.wait_for(Heartbeat, "second heartbeat")
        require(second.time > first.time, "heartbeats carry no time that goes on")


def pauses_and_resumes(subject: Subject, folder: Path) -> None:
    """pause stops the work and is told by a heartbeat, resume lets it go on"""
    claims(subject, "supports_pause_resume")
    with subject.start(example(subject, "check", endless=True), folder) as process:
        working(process)
        process.send("pause")
        process.wait_for(Heartbeat, "heartbeat with state paused", lambda beat: beat.state == "paused")
        process.send("resume")
        process.wait_for(Heartbeat, "heartbeat with state running", lambda beat: beat.state == "running")
        states = [item for item in process.messages if isinstance(item, Heartbeat | Metric | Episode | Step)]
        paused = next(i for i, item in enumerate(states) if isinstance(item, Heartbeat) and item.state == "paused")
        require(isinstance(states[paused + 1], Heartbeat), "the worker went on working while it was paused")
        working(process)


def saves_on_request(subject: Subject, folder: Path) -> None:
    """checkpoint saves a whole checkpoint with a card and tells its path"""
    claims(subject, "supports_checkpointing")
    with subject.start(example(subject, "check", endless=True), folder) as process:
        working(process)
        process.send("checkpoint")
        _verify(folder, process.wait_for(Checkpoint, "checkpoint"))


def _verify(folder: Path, told: Checkpoint) -> Path:
    require(not Path(told.path).is_absolute(), f"the checkpoint's path {told.path!r} is not relative to the run folder")
    path = folder / told.path
    require(
        path.resolve().is_relative_to(folder.resolve()), f"the checkpoint {told.path!r} lies outside the run folder"
    )
    try:
        card = checkpoints.verify(path)
    except CheckpointError as error:
        raise CheckFailed(str(error)) from None
    require(card.step == told.step, f"the card says step {card.step}, the telemetry {told.step}")
    require(bool(card.files), "the card lists no files")
    return path


def stops_when_told(subject: Subject, folder: Path) -> None:
    """stop ends the run within the grace time, with exit code 0 and reason stopped"""
    with subject.start(example(subject, "check", endless=True), folder) as process:
        working(process)
        process.send("stop")
        _check_stopped(process, "stop", subject)


def stops_on_sigterm(subject: Subject, folder: Path) -> None:
    """SIGTERM ends the run within the grace time, saving a checkpoint first where the worker can"""
    with subject.start(example(subject, "check", endless=True), folder) as process:
        working(process)
        process.process.send_signal(signal.SIGTERM)
        _check_stopped(process, "SIGTERM", subject)
        if subject.description["capabilities"]["supports_checkpointing"]:
            saved = [message for message in process.messages if isinstance(message, Checkpoint)]
            require(bool(saved), "no checkpoint was saved on SIGTERM")
            _verify(folder, saved[-1])


def stops_when_orphaned(subject: Subject, folder: Path) -> None:
    """The end of its stdin (the shepherd is gone) ends the worker within the grace time"""
    with subject.start(example(subject, "check", endless=True), folder) as process:
        working(process)
        assert process.process.stdin is not None
        process.process.stdin.close()
        process.wait(subject.grace_s, "the end of its stdin")


def _check_stopped(process: WorkerProcess, how: str, subject: Subject) -> None:
    code = process.wait(subject.grace_s, how)
    require(code == 0, f"exit code {code} after {how}: {process.stderr_tail()}")
    last = process.messages[-1]
    require(isinstance(last, RunCompleted), f"the last line after {how} is {type(last).__name__}, not RunCompleted")
    assert isinstance(last, RunCompleted)
    require(last.reason == "stopped", f"after {how} run_completed says {last.reason!r} instead of 'stopped'")


def resumes_from_checkpoint(subject: Subject, folder: Path) -> None:
    """A second attempt goes on after the step of the checkpoint that it is given"""
    claims(subject, "supports_checkpointing")
    config = example(subject, "check", endless=True)
    with subject.start(config, folder) as process:
        working(process)
        process.send("stop")
        process.wait(subject.grace_s, "stop")
        saved = [message for message in process.messages if isinstance(message, Checkpoint)]
    require(bool(saved), "no checkpoint was saved at the end")
    path = _verify(folder, saved[-1])
    with subject.start(config, folder, attempt=2, resume_from=path) as process:
        process.wait_for(RunStarted, "run_started")
        step = working(process)
        require(step > saved[-1].step, f"resumed from step {saved[-1].step}, but the next step told is {step}")


def names_its_algorithms(subject: Subject, folder: Path) -> None:
    """Every algorithm is described with the schema of its hyperparameters, and the example config chooses one"""
    algorithms, path = subject.description["algorithms"], subject.description["fields"]["algorithm"]
    if not algorithms or not path:
        raise CheckSkipped("the worker describes no algorithms")
    chosen = value_at(example(subject, "check"), path)
    require(chosen is None or chosen in algorithms, f"example_config's algorithm {chosen!r} is not described")
    for name, algorithm in algorithms.items():
        kind = algorithm["params_schema"].get("type")
        require(kind == "object", f"algorithm {name}: params_schema is not the schema of an object")


CHECKS = (
    describes_itself,
    names_its_algorithms,
    accepts_good_configs,
    refuses_bad_configs,
    tells_what_it_does,
    sends_heartbeats,
    pauses_and_resumes,
    saves_on_request,
    stops_when_told,
    stops_on_sigterm,
    stops_when_orphaned,
    resumes_from_checkpoint,
)
