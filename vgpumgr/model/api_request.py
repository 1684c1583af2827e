"""A request over HTTP that changes something: what came of it is kept under its key.

The key is written in the transaction of the request's first change: however often the request
comes, it is carried out once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

REQUEST_KEPT_S = 24 * 3600.0
"""How long a request is known again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    """A request: ``key`` is unique to its ``user``, ``digest`` is of what is asked, ``attempt``
    tells this one from others under the same key.
    """

    user: str
    key: str
    digest: str
    endpoint: str
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request that changed something, as it is kept. ``operation`` is empty where it has none;
    ``end`` is its answer or error once it has ended, or empty. Times are Unix seconds.
    """

    user: str
    key: str
    digest: str
    endpoint: str
    attempt: str
    operation: str
    begun_at: float
    ended_at: float | None
    end: Mapping[str, object]


class RequestLedger(Protocol):
    """What the ledger keeps of requests."""

    def api_request(self, user: str, key: str) -> ApiRequest | None:
        """The request under a user's key; None where nothing was changed under it."""

    def request_of(self, operation: str) -> ApiRequest | None:
        """The request that began an operation (its whole id)."""

    def end_request(self, key: RequestKey, end: Mapping[str, object]) -> None:
        """Keep the end of a request that changed something; nothing for one that did not."""

    def forget_requests(self, before: float, most: int) -> int:
        """Forget requests that were begun before a time (Unix seconds) and have ended, ``most`` at
        once; how many.
        """


_CURRENT: ContextVar[RequestKey | None] = ContextVar("vgpumgr-request", default=None)


def current_request() -> RequestKey | None:
    """The request that this thread works for; None where it is none of the API's."""
    return _CURRENT.get()


@contextmanager
def working_for(key: RequestKey | None) -> Iterator[None]:
    """The first change that is written inside carries the request's key; None: it is for none."""
    token = _CURRENT.set(key)
    try:
        yield
    finally:
        _CURRENT.reset(token)
