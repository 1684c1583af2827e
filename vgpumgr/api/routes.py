"""A route for every endpoint."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.convertors import Convertor, register_url_convertor

from vgpumgr.api.incoming_call import PREFIX, IncomingCall
from vgpumgr.api.pages import MOST_ITEMS
from vgpumgr.api.parameters import answer_type, other_parameters, path_types
from vgpumgr.api.problems import failures
from vgpumgr.api.request_keys import MAX_KEY
from vgpumgr.api.service import Service
from vgpumgr.endpoints.endpoint import AnyEndpoint, Runs
from vgpumgr.endpoints.operations import SHOW_OPERATION

WAIT = re.compile(r"^([0-9]{1,4})s?$")
WAIT_QUERY = Annotated[
    str, Query(pattern=r"^[0-9]{1,4}s?$", description="Wait so long for the end: `30s`.")
]
LONGEST_WAIT_S = 60
MATCH_HEADER = Annotated[
    Annotated[str, Field(min_length=1, max_length=1024)] | SkipJsonSchema[None],
    Header(description="The ETag of what is to be changed, as it was seen; or `*`."),
]
KEY_HEADER = Annotated[
    Annotated[str, Field(min_length=1, max_length=MAX_KEY)] | SkipJsonSchema[None],
    Header(description="A request that comes again under its key is carried out once."),
]


def add_routes(api: FastAPI, service: Service, endpoints: list[AnyEndpoint]) -> None:
    """Add them all."""
    for endpoint in endpoints:
        _add(api, service, endpoint)


def _add(api: FastAPI, service: Service, endpoint: AnyEndpoint) -> None:
    handler = _handler(service, endpoint)
    api.add_api_route(
        PREFIX + _route_path(endpoint),
        handler,
        methods=[endpoint.method],
        operation_id=endpoint.name,
        summary=endpoint.summary,
        tags=[endpoint.name.partition(".")[0]],
        status_code=202 if endpoint.runs is Runs.OPERATION else 200,
        response_model=None,
        responses=_responses(endpoint),
        openapi_extra={"x-permission": endpoint.permission or ""},
    )


class _NameConvertor(Convertor[str]):
    """A name in a path: what comes after a colon is what is to be done to it."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        """The name."""
        return value

    def to_string(self, value: str) -> str:
        """The name as it is in the path."""
        return value


register_url_convertor("name", _NameConvertor())


def _route_path(endpoint: AnyEndpoint) -> str:
    """The path as the router has it; names of GPUs may hold slashes and colons."""
    kind = "path" if endpoint.name.startswith("gpu.") else "name"
    return re.sub(r"\{(\w+)\}", rf"{{\1:{kind}}}", endpoint.path)


def _responses(endpoint: AnyEndpoint) -> dict[int | str, dict[str, Any]]:
    answered: dict[int | str, dict[str, Any]] = {
        200: {"model": answer_type(endpoint), "description": "The answer."}
    }
    if endpoint.runs is Runs.OPERATION:
        answered[202] = {
            "description": "An operation is reserved, and is being carried out.",
            "model": answer_type(SHOW_OPERATION),
        }
    return {**answered, **failures()}


def _handler(service: Service, endpoint: AnyEndpoint) -> Callable[..., Any]:
    """A handler whose signature has the endpoint's parameters, as FastAPI reads them."""
    takes_wait = endpoint.runs is Runs.OPERATION or endpoint.name == "operation.show"

    async def handle(request: Request, **given: Any) -> Response:
        wait_s = _seconds(given.pop("wait", "0"))
        key = given.pop("idempotency_key", None)
        given.pop("if_match", None)  # the call reads it itself
        others = given.pop("others", None)
        asked = {**given, **(others.model_dump() if others is not None else {})}
        size, after = asked.pop("page_size", None), asked.pop("page_after", None)
        if after is not None and size is None:
            size = MOST_ITEMS
        call = IncomingCall(service, endpoint, request, asked, key, size, after or "")
        if endpoint.runs is Runs.LEDGER and takes_wait:
            return await call.awaited_operation(wait_s)
        return await call.answer(wait_s)

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
    if endpoint.changes:
        parameters.append(
            Parameter(
                "idempotency_key", Parameter.KEYWORD_ONLY, annotation=KEY_HEADER, default=None
            )
        )
    if endpoint.tag is not None and endpoint.changes:
        parameters.append(
            Parameter("if_match", Parameter.KEYWORD_ONLY, annotation=MATCH_HEADER, default=None)
        )
    handle.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    handle.__name__ = endpoint.name.replace(".", "_")
    return handle


def _seconds(text: str) -> int:
    found = WAIT.match(text)
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0
