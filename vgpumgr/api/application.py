"""The application: routes, answers for errors, and the headers of every answer."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.status import HTTP_405_METHOD_NOT_ALLOWED

from vgpumgr import __version__
from vgpumgr.access.permission import Permission
from vgpumgr.api.body_limit import BodyLimit
from vgpumgr.api.console_route import add_console_route
from vgpumgr.api.incoming_call import PREFIX
from vgpumgr.api.login_routes import add_login_routes
from vgpumgr.api.metrics_route import add_metrics_routes
from vgpumgr.api.problems import MEDIA_TYPE, FieldProblem, problem
from vgpumgr.api.routes import add_routes
from vgpumgr.api.service import Service
from vgpumgr.api.trail_follower import HEARTBEAT_S
from vgpumgr.api.upload_routes import add_upload_routes
from vgpumgr.api.worker import unexpected
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import NotFound, UsageError, VgpumgrError
from vgpumgr.model.role_binding import Scope

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
_log = logging.getLogger("vgpumgr.api")


def describe() -> dict[str, Any]:
    """The OpenAPI description; it depends on the endpoints alone."""
    return make_application(None).openapi()


def make_application(service: Service | None) -> FastAPI:
    """The API over a service; without one it can only be described."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if service is not None:
            service.start()
        yield

    api = FastAPI(
        title="vgpumgr",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    served = cast("Service", service)
    add_routes(api, served, list(ENDPOINTS.values()))
    _add_events(api, served)
    add_metrics_routes(api, served)
    add_login_routes(api, served)
    add_upload_routes(api, served)
    add_console_route(api, served)
    api.add_middleware(BodyLimit)
    _answer_errors(api)
    plain = api.openapi
    api.openapi = lambda: with_problems(plain())  # type: ignore[method-assign]
    return api


def with_problems(description: dict[str, Any]) -> dict[str, Any]:
    """The description in which every failure is a problem document, and nothing else."""
    for path in description["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    answer["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    for name in ("HTTPValidationError", "ValidationError"):
        description["components"]["schemas"].pop(name, None)
    return description


_PROBLEM = {"$ref": "#/components/schemas/Problem"}


def _add_events(api: FastAPI, service: Service) -> None:
    @api.get(
        f"{PREFIX}/events",
        operation_id="event.stream",
        tags=["event"],
        summary="Every change as it is committed, as server-sent events.",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The stream."}},
        openapi_extra={"x-permission": Permission.AUDIT_READ},
    )
    async def events(
        request: Request,
        last_event_id: Annotated[int | None, Header(ge=0)] = None,
    ) -> StreamingResponse:
        def scope() -> Scope:
            who = service.known(request)
            return who.grants.require(Permission.AUDIT_READ)

        def begun() -> Scope:
            service.admitted(request, Permission.AUDIT_READ, changes=False)
            return scope()

        held = await to_thread.run_sync(begun)
        await to_thread.run_sync(service.changes.require_reached, last_event_id)
        stream = service.changes.stream(last_event_id, held)
        return StreamingResponse(_while_held(stream, held, scope), media_type="text/event-stream")


async def _while_held(
    stream: AsyncGenerator[bytes, None], held: Scope, scope: Callable[[], Scope]
) -> AsyncIterator[bytes]:
    """The stream until its listener has lost the scope it was begun with; looked at every 15 s."""
    looked_at = time.monotonic()
    async with aclosing(stream):
        async for event in stream:
            if time.monotonic() - looked_at >= HEARTBEAT_S:
                looked_at = time.monotonic()
                try:
                    if await to_thread.run_sync(scope) != held:
                        return
                except VgpumgrError:
                    return
            yield event


def _answer_errors(api: FastAPI) -> None:
    @api.exception_handler(VgpumgrError)
    async def known(_: Request, error: VgpumgrError) -> Response:
        return problem(error)

    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        fields = [_field_problem(each) for each in error.errors()[:20]]
        first = fields[0] if fields else FieldProblem(pointer="", message="it is not valid")
        told = UsageError(
            f"{first.pointer or 'the request'}: {first.message}",
            next="GET /v1/openapi.json describes every request",
        )
        return problem(told, status=422, fields=fields)

    @api.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        told = NotFound(f"no {path}") if error.status_code == 404 else UsageError(str(error.detail))
        answer = problem(told, status=error.status_code)
        answer.headers.update(error.headers or {})
        if error.status_code == HTTP_405_METHOD_NOT_ALLOWED:
            answer.headers["Allow"] = ", ".join(_methods(api, path))
        return answer

    @api.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> Response:
        _log.error("a bug", exc_info=error)
        return problem(unexpected(error))

    @api.middleware("http")
    async def headers(request: Request, call_next: Any) -> Response:
        answer: Response = await call_next(request)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer


def _methods(api: FastAPI, path: str) -> list[str]:
    """Every method that the path has: Starlette tells those of the first route alone."""
    routes = (
        each for each in api.routes if isinstance(each, Route) and each.path_regex.match(path)
    )
    return sorted({method for each in routes for method in each.methods or ()} - {"HEAD"})


def _field_problem(error: Any) -> FieldProblem:
    where, *rest = [str(each) for each in error["loc"]] or [""]
    inside = [each for each in rest if each != "others"]
    pointer = "/" + "/".join(inside) if inside else where
    return FieldProblem(pointer=pointer, message=str(error["msg"])[:500])
