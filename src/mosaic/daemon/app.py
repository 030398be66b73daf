"""The ASGI application: routes, errors, OpenAPI, and the guard around all of it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from mosaic import __version__
from mosaic.daemon.api import frames, live, reading, runs, system, workers
from mosaic.daemon.api.common import ApiError, Json, error_answer, spec_error
from mosaic.daemon.auth import Guard, LoginCodes
from mosaic.daemon.job import JobSpec, SpecError
from mosaic.daemon.registry import AmbiguousRun, UnknownRun
from mosaic.daemon.trainer import NotPossible, Trainer
from mosaic.daemon.views import RunView
from mosaic.envs import EnvsError, WorkerMissing
from mosaic.store import StoreError
from mosaic.web import INDEX, STATIC
from mosaic.worker import FieldError

PREFIX = "/api/v1"
PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    # Nothing from elsewhere, and no page of somebody else's around ours.
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; connect-src 'self' ws://127.0.0.1:* ws://localhost:*; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

log = logging.getLogger("mosaic.daemon")


def make_app(trainer: Trainer, token: str, url: str) -> tuple[FastAPI, ASGIApp]:
    """The application, and what to serve: the application behind its guard."""
    # No documentation pages: they would load scripts from elsewhere.
    app = FastAPI(title="MOSAIC", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.trainer = trainer
    app.state.url = url
    app.state.started = time.time()
    app.state.codes = LoginCodes()
    app.state.stop = asyncio.Event()
    for module in (system, runs, reading, frames, workers, live):
        app.include_router(module.router, prefix=PREFIX)
    app.add_api_route("/", _front, methods=["GET"], include_in_schema=False)
    app.mount("/static", Pages(directory=STATIC))
    app.add_api_route(f"{PREFIX}/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    _answer_errors(app)
    return app, Guard(app, token, app.state.codes)


class Pages(StaticFiles):
    """The GUI's files, asked for anew each time: an upgraded daemon never meets an old page."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(PAGE_HEADERS)
        return response


async def _front() -> FileResponse:
    return FileResponse(INDEX, headers=PAGE_HEADERS)


async def _openapi(request: Request) -> Json:
    return Json(describe_api(request.app))


def describe_api(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _, components = msgspec.json.schema_components([JobSpec, RunView], ref_template="#/components/schemas/{name}")
        schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
        app.openapi_schema = schema
    return app.openapi_schema


def _answer_errors(app: FastAPI) -> None:
    """Every error is JSON with one line."""

    def tell(kind: type[Exception], status: int) -> None:
        async def handler(request: Request, error: Exception) -> Json:
            return error_answer(status, str(error))

        app.add_exception_handler(kind, handler)

    async def api_error(request: Request, error: Exception) -> Json:
        if isinstance(error, SpecError):
            error = spec_error(error)
        assert isinstance(error, ApiError)
        return error_answer(error.status, error.message, error.errors)

    async def http_error(request: Request, error: Exception) -> Json:
        assert isinstance(error, HTTPException)
        return error_answer(error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    async def bad_parameters(request: Request, error: Exception) -> Json:
        assert isinstance(error, RequestValidationError)
        errors = [_parameter_error(problem) for problem in error.errors()]
        return error_answer(422, errors[0].message, errors)

    async def unexpected(request: Request, error: Exception) -> Json:
        return error_answer(500, f"the daemon failed at this: {type(error).__name__}: {error}; see daemon.log")

    app.add_exception_handler(ApiError, api_error)
    app.add_exception_handler(SpecError, api_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, bad_parameters)
    app.add_exception_handler(Exception, unexpected)
    tell(AmbiguousRun, 409)
    tell(UnknownRun, 404)
    tell(NotPossible, 409)
    tell(WorkerMissing, 404)
    tell(EnvsError, 502)
    tell(StoreError, 500)
    tell(sqlite3.OperationalError, 503)
    tell(OSError, 507)


def _parameter_error(problem: Any) -> FieldError:
    name = ".".join(str(part) for part in problem["loc"][1:])
    return FieldError(name, f"parameter {name!r}: got {problem.get('input')!r}: {problem['msg']}", problem.get("input"))
