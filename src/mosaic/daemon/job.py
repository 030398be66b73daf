"""What can be submitted (`JobSpec`) and what a run is described by for good (`Job`, written as job.json)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mosaic.worker import FieldError, schema_of
from mosaic.worker.validation import check

Name = Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f/]+$")]
Tag = Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f,]+$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    pass


class Resources(Strict, frozen=True):
    cpus: Annotated[int, Meta(ge=1, le=4096, description="CPU slots")] = 1
    memory_mb: Annotated[int, Meta(ge=16, description="memory limit; null: none")] | None = None
    gpus: Annotated[int, Meta(ge=0, le=64, description="whole GPUs")] = 0


class Retry(Strict, frozen=True):
    policy: Literal["none", "restart", "resume"] = "none"
    limit: Annotated[int, Meta(ge=0, le=1000, description="how often the daemon starts it again by itself")] = 3


class Clips(Strict, frozen=True):
    every_episodes: Annotated[int, Meta(ge=1)]


class JobSpec(Strict, frozen=True):
    worker: Annotated[str, Meta(min_length=1, max_length=80)]
    config: dict[str, Any] = {}
    name: Name | None = None
    group: Annotated[
        Name | None, Meta(description="runs that belong together, such as one config with several seeds")
    ] = None
    tags: Annotated[list[Tag], Meta(max_length=32)] = []
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="higher starts first")] = 0
    resources: Resources = Resources()
    retry: Retry = Retry()
    clips: Clips | None = None


class WorkerPart(msgspec.Struct, kw_only=True, frozen=True):
    name: str
    module: str
    config: dict[str, Any]


class Metadata(msgspec.Struct, kw_only=True, frozen=True):
    worker: WorkerPart


class Job(msgspec.Struct, kw_only=True, frozen=True):
    run_id: str
    name: str
    created: float
    group: str | None = None
    tags: list[str] = []
    priority: int = 0
    resources: Resources = Resources()
    retry: Retry = Retry()
    clips: Clips | None = None
    metadata: Metadata

    @property
    def worker(self) -> str:
        return self.metadata.worker.name

    @property
    def config(self) -> dict[str, Any]:
        return self.metadata.worker.config


class SpecError(Exception):
    """A submission that cannot be accepted, with what is wrong by field."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__("; ".join(error.message for error in errors))


def make_job(spec: JobSpec, run_id: str, created: float, module: str, config: dict[str, Any]) -> Job:
    return Job(
        run_id=run_id,
        name=spec.name or f"{spec.worker}-{run_id[-6:].lower()}",
        created=created,
        group=spec.group,
        tags=list(dict.fromkeys(spec.tags)),
        priority=spec.priority,
        resources=spec.resources,
        retry=spec.retry,
        clips=spec.clips,
        metadata=Metadata(worker=WorkerPart(name=spec.worker, module=module, config={**config, "run_id": run_id})),
    )


JOB_SCHEMA = schema_of(JobSpec, title="Submission of a run")


def parse_spec(body: bytes) -> JobSpec:
    """The submission, or a SpecError that names every field that is wrong, what was given and what is allowed."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecError([FieldError("", f"the request body is not valid JSON: {error}")]) from None
    normalised, errors = check(document, JOB_SCHEMA)
    if errors:
        raise SpecError(errors)
    return msgspec.convert(normalised, JobSpec)
