"""What all routes share: answers as JSON by msgspec, one-line errors, and finding the run that a path names."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Depends, Response
from starlette.requests import HTTPConnection, Request

from mosaic.daemon.job import SpecError
from mosaic.daemon.registry import Row
from mosaic.daemon.trainer import NotPossible, Trainer
from mosaic.paths import CHILD_MARK
from mosaic.worker import FieldError

BODY_LIMIT = 8 << 20


class ApiError(Exception):
    """A request that is answered with an error of one line."""

    def __init__(self, status: int, message: str, errors: list[FieldError] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors


class Json(Response):
    """An answer encoded by msgspec: structs, dicts, lists."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def error_answer(status: int, message: str, errors: list[FieldError] | None = None) -> Json:
    content: dict[str, Any] = {"error": message}
    if errors is not None:
        content["errors"] = [error.as_dict() for error in errors]
    return Json(content, status_code=status)


def spec_error(error: SpecError) -> ApiError:
    first = error.errors[0].message
    more = f" (and {len(error.errors) - 1} more)" if len(error.errors) > 1 else ""
    return ApiError(422, first + more, error.errors)


def get_trainer(connection: HTTPConnection) -> Trainer:
    trainer: Trainer = connection.app.state.trainer
    return trainer


TrainerDep = Annotated[Trainer, Depends(get_trainer)]


async def find_row(run: str, trainer: TrainerDep) -> Row:
    """In the event loop, where the registry may be read."""
    return trainer.find(run)


async def find_own_row(row: Annotated[Row, Depends(find_row)]) -> Row:
    parent, mark, _ = row.run_id.partition(CHILD_MARK)
    if mark:
        raise NotPossible(f"{row.name} is part of run {parent}: steer that one")
    return row


# For looking at: a run or a child run. For steering: a run.
SeenDep = Annotated[Row, Depends(find_row)]
RowDep = Annotated[Row, Depends(find_own_row)]


async def read_body(request: Request) -> bytes:
    """The body, up to a limit that no honest request reaches."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            raise ApiError(413, f"the request body is larger than {BODY_LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)


def answers(schema: str, *, status: int = 200, many: str = "") -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the shape of an answer, by the name of a component; `many`: under this name in a list."""
    reference: dict[str, Any] = {"$ref": f"#/components/schemas/{schema}"}
    if many:
        reference = {"type": "object", "properties": {many: {"type": "array", "items": reference}}}
    return {status: {"description": "", "content": {"application/json": {"schema": reference}}}}
