"""A result as JSON and back: the answer with its kind, notes and error."""

from __future__ import annotations

from typing import Any, TypeVar

from vgpumgr import API_VERSION
from vgpumgr.endpoints.endpoint import AnyEndpoint, Endpoint, Result
from vgpumgr.model.errors import UsageError, error_from
from vgpumgr.model.json_times import timed, untimed

P = TypeVar("P")
A = TypeVar("A")


def to_json(endpoint: AnyEndpoint, result: Result[Any]) -> dict[str, Any]:
    """The whole answer; ``notes`` and ``error`` only where there are any."""
    whole: Any = timed({"apiVersion": API_VERSION, "kind": endpoint.kind, **result.answer})
    if result.notes:
        whole["notes"] = list(result.notes)
    if result.error is not None:
        whole["error"] = result.error.as_dict()
    return dict(whole)


def from_json(endpoint: Endpoint[P, A], whole: dict[str, Any]) -> Result[A]:
    """The result that :func:`to_json` wrote; UsageError where it is another kind of answer."""
    if whole.get("kind") != endpoint.kind:
        raise UsageError(
            f"the server's answer to {endpoint.name} is no {endpoint.kind}",
            why="it may be of another version",
            next="vgpumgr --version",
        )
    answer = untimed({k: v for k, v in whole.items() if k not in {"notes", "error"}})
    answer.pop("apiVersion", None)
    answer.pop("kind", None)
    error = whole.get("error")
    return Result(
        answer=answer,
        notes=tuple(whole.get("notes", ())),
        error=error_from(error) if error is not None else None,
    )
