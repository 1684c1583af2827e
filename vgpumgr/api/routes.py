"""A route for every endpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Body, FastAPI, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from vgpumgr.api.authentication import actor_of
from vgpumgr.api.parameters import answer_type, other_parameters, path_types
from vgpumgr.api.problems import MEDIA_TYPE, Problem, problem
from vgpumgr.api.service import Service
from vgpumgr.api.worker_pool import Job
from vgpumgr.endpoints.answers import to_json
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import AnyEndpoint, Runs
from vgpumgr.endpoints.operations import OneOperation, show_operation
from vgpumgr.model.actor import Actor, acting
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import VgpumgrError

PREFIX = "/v1"
WAIT = re.compile(r"^([0-9]{1,4})s?$")
WAIT_QUERY = Annotated[
    str, Query(pattern=r"^[0-9]{1,4}s?$", description="Wait so long for the end: `30s`.")
]
LONGEST_WAIT_S = 60
_FAILURES = (400, 401, 403, 404, 409, 422, 500, 502, 503, 504)


def add_routes(api: FastAPI, service: Service, endpoints: list[AnyEndpoint]) -> None:
    """Add them all."""
    for endpoint in endpoints:
        _add(api, service, endpoint)


def _add(api: FastAPI, service: Service, endpoint: AnyEndpoint) -> None:
    handler = _handler(service, endpoint)
    api.add_api_route(
        PREFIX + endpoint.path,
        handler,
        methods=[endpoint.method],
        operation_id=endpoint.name,
        summary=endpoint.summary,
        tags=[endpoint.name.partition(".")[0]],
        status_code=202 if endpoint.runs is Runs.OPERATION else 200,
        response_model=None,
        responses=_responses(endpoint),
        openapi_extra={"x-permission": endpoint.permission},
    )


def _responses(endpoint: AnyEndpoint) -> dict[int | str, dict[str, Any]]:
    failure = {"model": Problem, "content": {MEDIA_TYPE: {}}}
    answered: dict[int | str, dict[str, Any]] = {
        200: {"model": answer_type(endpoint), "description": "The answer."}
    }
    if endpoint.runs is Runs.OPERATION:
        answered[202] = {
            "description": "An operation is reserved, and is being carried out.",
            "model": answer_type(service_operation()),
        }
    failures: dict[int | str, dict[str, Any]] = {
        status: {**failure, "description": "A problem."} for status in _FAILURES
    }
    return {**answered, **failures}


def service_operation() -> AnyEndpoint:
    """The endpoint whose answer is an operation."""
    from vgpumgr.endpoints.operations import SHOW_OPERATION

    return SHOW_OPERATION


def _handler(service: Service, endpoint: AnyEndpoint) -> Callable[..., Any]:
    """A handler whose signature has the endpoint's parameters, as FastAPI reads them."""
    takes_wait = endpoint.runs is Runs.OPERATION or endpoint.name == "operation.show"

    async def handle(request: Request, **given: Any) -> Response:
        actor = actor_of(request)
        wait_s = _seconds(given.pop("wait", "0"))
        others = given.pop("others", None)
        plain = {**given, **(others.model_dump() if others is not None else {})}
        match endpoint.runs:
            case Runs.LEDGER if wait_s:
                return await _operation(service, actor, plain["id"], wait_s)
            case Runs.LEDGER:
                asked = from_plain(endpoint.asks, plain)
                return await to_thread.run_sync(partial(_answer, service, endpoint, actor, asked))
            case _:
                return await _in_worker(service, endpoint, actor, plain, wait_s)

    parameters = [Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=Annotated[kind, Path()])
        for name, kind in path_types(endpoint).items()
    ]
    others = other_parameters(endpoint)
    if others is not None:
        where = Body() if endpoint.changes else Query()
        parameters.append(
            Parameter("others", Parameter.KEYWORD_ONLY, annotation=Annotated[others, where])
        )
    if takes_wait:
        parameters.append(
            Parameter("wait", Parameter.KEYWORD_ONLY, annotation=WAIT_QUERY, default="0")
        )
    handle.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    handle.__name__ = endpoint.name.replace(".", "_")
    return handle


def _seconds(text: str) -> int:
    found = WAIT.match(text)
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0


def _answer(service: Service, endpoint: AnyEndpoint, actor: Actor, asked: Any) -> Response:
    with acting(actor):
        result = endpoint.work(CallContext(app=service.app), asked)
        return JSONResponse(to_json(endpoint, result))


async def _in_worker(
    service: Service, endpoint: AnyEndpoint, actor: Actor, plain: dict[str, Any], wait_s: int
) -> Response:
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def heard() -> None:
        loop.call_soon_threadsafe(changed.set)

    asked = {"endpoint": endpoint.name, "asked": plain, "actor": to_plain(actor)}
    job = Job(asked=asked, changed=heard)
    await to_thread.run_sync(partial(service.workers.submit, job))
    early = endpoint.runs is Runs.OPERATION
    while not (job.ended or (early and job.operation)):
        await changed.wait()
        changed.clear()
    if job.operation:
        service.keep(job)
        await _until_ended(job, changed, wait_s)
    if job.error is not None:
        return problem(job.error)
    if job.answer is not None:
        return JSONResponse(job.answer)
    return await _operation(service, actor, job.operation, 0, status=202)


async def _until_ended(job: Job, changed: asyncio.Event, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            while not job.ended:
                await changed.wait()
                changed.clear()
    except TimeoutError:
        pass


async def _operation(
    service: Service, actor: Actor, id_: str, wait_s: int, *, status: int = 200
) -> Response:
    """An operation, once it has ended or the time is over."""
    endpoint, until = service_operation(), asyncio.get_running_loop().time() + wait_s

    def read() -> dict[str, Any]:
        with acting(actor):
            result = show_operation(CallContext(app=service.app), OneOperation(id=id_))
        return _with_end(to_json(endpoint, result), service)

    while True:
        whole = await to_thread.run_sync(read)
        left_s = until - asyncio.get_running_loop().time()
        if whole["done"] or left_s <= 0:
            headers = {"Location": f"{PREFIX}/operations/{whole['name']}"}
            return JSONResponse(whole, status_code=status, headers=headers)
        await service.changes.wait(min(left_s, 1.0))


def _with_end(whole: dict[str, Any], service: Service) -> dict[str, Any]:
    """The operation with the end of the request that began it, where that was here."""
    job = service.job(whole["name"])
    if job is None:
        return whole
    if job.answer is not None:
        whole["response"] = job.answer
    if job.error is not None:
        whole["error"] = job.error.as_dict()
    return {**whole, "done": job.ended}


def failed(error: Exception) -> Response:
    """The answer for an error that was raised."""
    assert isinstance(error, VgpumgrError)
    return problem(error)
