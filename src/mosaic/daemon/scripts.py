"""Shell scripts as runs, the daemon's side: what a script's comment header says, and the config that comes of it.

    #!/bin/sh
    # @description Warm up, train, evaluate
    # @phases warmup, train, evaluate
    # @total_timesteps 300000

The header is the block of comment lines at the top. `mosaic.daemon.script` runs the script.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mosaic.daemon.job import SpecError
from mosaic.worker import ConfigFields, FieldError, WorkerCapabilities, refuse, schema_of
from mosaic.worker.description import check_config, describe

SCRIPT_WORKER = "script"
COPY_NAME = "script.sh"
SIZE_LIMIT = 1 << 20

_MARK = re.compile(r"#+\s*@(\w+)\s*(.*)")


class ScriptConfig(msgspec.Struct, kw_only=True):
    file: Annotated[str, Meta(description="the script: an absolute path", pattern="^/")]
    args: Annotated[list[str], Meta(description="what the script is called with")] = []
    cwd: Annotated[str, Meta(description="where it runs; empty: in the script's own folder")] = ""
    description: str = ""
    phases: Annotated[list[str], Meta(description="its phases, in order")] = []
    total_timesteps: Annotated[int, Meta(ge=1)] | None = None
    run_id: str = ""


DESCRIPTION: dict[str, Any] = describe(
    capabilities=WorkerCapabilities(worker_type=SCRIPT_WORKER, supports_pause_resume=False, estimated_memory_mb=32),
    version="1",
    title="Shell script",
    summary="Runs a shell script as a run; each phase that it announces shows as a stage.",
    config_schema=schema_of(ScriptConfig, title="Script"),
    fields=ConfigFields(algorithm=None, environment=None, seed=None),
    algorithms={},
    example_config={"file": "/path/to/script.sh"},
)


@dataclass(frozen=True)
class PreparedScript:
    config: dict[str, Any]
    content: bytes


def prepare(config: dict[str, Any]) -> PreparedScript:
    """The whole config of a script run and what the script says now; raises SpecError."""
    checked, errors = check_config(DESCRIPTION, config)
    if errors:
        raise SpecError(errors)
    path = Path(checked["file"])
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise SpecError([FieldError("file", f"field 'file': {path}: {error.strerror}", str(path))]) from None
    if len(content) > SIZE_LIMIT:
        raise SpecError([refuse("file", str(path), f"a script of at most {SIZE_LIMIT} bytes")])
    # What the submission says itself goes before what the header says.
    return PreparedScript({**read_header(content), **checked}, content)


def read_header(content: bytes) -> dict[str, Any]:
    """description, phases and total_timesteps, as far as the script's comment header gives them."""
    found: dict[str, Any] = {}
    for line in content.decode(errors="replace").splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            break
        mark = _MARK.fullmatch(text)
        if mark is None:
            continue
        name, value = mark[1], mark[2].strip()
        if name == "description" and value:
            found["description"] = f"{found['description']} {value}" if "description" in found else value
        elif name == "phases":
            found["phases"] = [phase.strip() for phase in value.split(",") if phase.strip()]
        elif name == "total_timesteps":
            number = value.replace("_", "")
            if not (number.isascii() and number.isdecimal()) or int(number) < 1:
                raise SpecError([refuse("total_timesteps", value, "a whole number from 1 up, in the script's header")])
            found["total_timesteps"] = int(number)
    return found
