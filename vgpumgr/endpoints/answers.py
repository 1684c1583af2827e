"""A result as JSON and back: the answer with its kind, the lines for people, and the error."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

from vgpumgr import API_VERSION
from vgpumgr.endpoints.endpoint import AnyEndpoint, Endpoint, Result
from vgpumgr.model.errors import UsageError, error_from
from vgpumgr.model.json_times import timed, untimed

P = TypeVar("P")
A = TypeVar("A")


def to_json(endpoint: AnyEndpoint, result: Result[Any]) -> dict[str, Any]:
    """The whole answer; ``messages`` and ``error`` only where there are any."""
    whole: Any = timed({"apiVersion": API_VERSION, "kind": endpoint.kind, **result.answer})
    if result.notes:
        whole["messages"] = list(result.notes)
    if result.error is not None:
        whole["error"] = result.error.as_dict()
    return dict(whole)


def from_json(endpoint: Endpoint[P, A], whole: dict[str, Any]) -> Result[A]:
    """The result that :func:`to_json` wrote; UsageError where it is another kind of answer."""
    has_kind = "kind" in _keys(endpoint)
    if not has_kind and whole.get("kind") != endpoint.kind:
        raise UsageError(
            f"the server's answer to {endpoint.name} is no {endpoint.kind}",
            why="it may be of another version",
            next="vgpumgr --version",
        )
    beside = {"apiVersion", "messages", "error", *(() if has_kind else ("kind",))}
    answer = untimed({key: value for key, value in whole.items() if key not in beside})
    error = whole.get("error")
    return Result(
        answer=answer,
        notes=tuple(whole.get("messages", ())),
        error=error_from(error) if error is not None else None,
    )


def _keys(endpoint: AnyEndpoint) -> frozenset[str]:
    """The keys that its answers may have."""
    answers = get_origin(endpoint.answers) or endpoint.answers
    return frozenset(answers.__annotations__)
