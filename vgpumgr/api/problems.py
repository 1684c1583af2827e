"""Errors over HTTP: problem documents (RFC 9457) with the code, cause and advice of ours."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.status import HTTP_401_UNAUTHORIZED

from vgpumgr.model.errors import VgpumgrError

MEDIA_TYPE = "application/problem+json"
# By the beginning of an error's code, the longest first.
_STATUS = {
    "usage": 400,
    "usage.too-long": 413,
    "not-found": 404,
    "conflict": 409,
    "placement": 409,
    "quota-exceeded": 409,
    "not-permitted": 403,
    "not-permitted.login": 401,
    "host": 502,
    "deadline": 504,
    "ledger": 503,
    "interrupted": 503,
    "precondition": 412,
    "precondition-required": 428,
    "idempotency": 422,
    "rate": 429,
    "busy": 503,
}


class FieldProblem(BaseModel):
    """What is wrong with one parameter; ``pointer`` is where it is (RFC 6901)."""

    pointer: str
    message: str


class Failure(BaseModel):
    """What happened, why, and what to do next. ``code`` is stable; ``exit`` is the exit status of
    the command line for it. Some kinds of errors have more keys.
    """

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    why: str
    next: str
    exit: int


class Problem(Failure):
    """A failure as a problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    fields: list[FieldProblem] = []


def status_of(code: str) -> int:
    """The HTTP status for an error's code."""
    for length in range(code.count(".") + 1, 0, -1):
        found = _STATUS.get(".".join(code.split(".")[:length]))
        if found is not None:
            return found
    return 500


def problem(
    error: VgpumgrError, *, status: int | None = None, fields: list[FieldProblem] | None = None
) -> JSONResponse:
    """The answer for an error."""
    told: dict[str, Any] = error.as_dict()
    status = status or status_of(error.code)
    body = Problem(
        type=f"urn:vgpumgr:error:{error.code}",
        title=error.message,
        status=status,
        detail=f"{error.message}: {error.why}" if error.why else error.message,
        fields=fields or [],
        **told,
    )
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTP_401_UNAUTHORIZED else {}
    if "retry_s" in told:
        headers["Retry-After"] = str(told["retry_s"])
    return JSONResponse(
        body.model_dump(), status_code=status, headers=headers, media_type=MEDIA_TYPE
    )


_FAILURES = (400, 401, 403, 404, 409, 412, 413, 422, 428, 429, 500, 502, 503, 504)


def failures() -> dict[int | str, dict[str, Any]]:
    """Every failure that a route may answer with, for its description."""
    return {status: {"model": Problem, "description": "A problem."} for status in _FAILURES}
