"""Requests that change something: each is carried out once, however often it comes."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from vgpumgr.endpoints.endpoint import AnyEndpoint
from vgpumgr.model.api_request import ApiRequest, RequestKey
from vgpumgr.model.errors import Conflict, UsageError

MAX_KEY = 255


class KeyOfAnother(UsageError):
    """The key was used for another request."""

    code = "idempotency"


class InDoubt(Conflict):
    """The request was begun before; what came of it is not known."""

    code = "conflict.in-doubt"


def request_key(
    endpoint: AnyEndpoint,
    user: str,
    asked: Mapping[str, Any],
    key: str | None,
    conceal: Callable[[str], str],
) -> RequestKey:
    """The key of a request; one that shows none is like no other. Its digest is kept: of what is
    secret it is of the text that ``conceal`` makes of it, which allows no guess.
    """
    hidden = {name: conceal(json.dumps(asked[name])) for name in endpoint.conceals if name in asked}
    text = json.dumps([endpoint.name, {**asked, **hidden}], sort_keys=True)
    return RequestKey(
        user=user,
        key=key or f"none:{uuid.uuid4()}",
        digest=hashlib.sha256(text.encode()).hexdigest(),
        endpoint=endpoint.name,
        attempt=str(uuid.uuid4()),
    )


def require_same(found: ApiRequest, key: RequestKey) -> None:
    """KeyOfAnother where the key was used for something else."""
    if found.digest != key.digest:
        raise KeyOfAnother(
            f"the idempotency key {key.key} was used for another request",
            why=f"{found.endpoint} with other parameters",
            next="use a new key for a new request",
        )


def in_doubt(found: ApiRequest) -> InDoubt:
    """The error of a request that has neither an operation nor an end."""
    return InDoubt(
        f"the request {found.key} was begun before, and its end is not known",
        why="it changed something, and then its process ended, or its answer is not kept",
        next="look at what it was to change, and use a new key",
    )
