"""`mosaic submit`: a config file becomes a run."""

from __future__ import annotations

from typing import Any

import click

from mosaic.cli.options import complete_workers, make_client
from mosaic.cli.submission import SubmitOptions, read_json_object, submit, with_submit_options
from mosaic.client.errors import BadConfig


@click.command("submit")
@click.argument("file", metavar="FILE.json", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--worker", metavar="NAME", shell_complete=complete_workers, help="Who runs it, if the file does not say so."
)
@with_submit_options
def command(file: str, worker: str | None, **values: Any) -> int:
    """Submit a config file as a run.

    FILE.json is a worker's config (say --worker), a job specification {"worker": ..., "config": {...}}, or a full job
    descriptor such as a run's job.json; - reads it from stdin. Options win over what the file says.
    """
    spec = spec_from(read_json_object(file), worker, file)
    return submit(make_client(), spec, SubmitOptions.take(values))


def spec_from(content: dict[str, Any], worker: str | None, file: str) -> dict[str, Any]:
    """A JobSpec from any of the three forms."""
    if "metadata" in content:
        spec = _from_descriptor(content, file)
    elif set(content) & {"worker", "config"} == {"worker", "config"} and isinstance(content["config"], dict):
        spec = dict(content)
    elif worker is None:
        raise BadConfig(f"config file {file} does not say which worker it is for: say --worker NAME")
    else:
        spec = {"worker": worker, "config": content}
    if worker is not None and spec["worker"] != worker:
        raise BadConfig(f"config file {file} is for worker {spec['worker']!r}, but --worker says {worker!r}")
    return spec


def _from_descriptor(job: dict[str, Any], file: str) -> dict[str, Any]:
    try:
        part = job["metadata"]["worker"]
        name, config = part["name"], dict(part["config"])
    except (LookupError, TypeError, ValueError):
        raise BadConfig(
            f"config file {file}: a job descriptor needs metadata.worker.name and metadata.worker.config"
        ) from None
    config.pop("run_id", None)  # this becomes a run of its own
    keys = ("tags", "priority", "resources", "retry", "clips", *(() if "run_id" in job else ("name",)))
    kept = {key: job[key] for key in keys if job.get(key)}
    return {**kept, "worker": name, "config": config}
