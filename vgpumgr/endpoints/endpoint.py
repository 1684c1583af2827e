"""An endpoint: one thing that can be asked of a fleet, its parameters and its answer as types.

The command line calls ``work`` in its own process, or over HTTP; the API makes a route of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vgpumgr.access.permission import Permission

if TYPE_CHECKING:
    from vgpumgr.endpoints.call_context import CallContext
    from vgpumgr.model.errors import VgpumgrError

P = TypeVar("P")
A = TypeVar("A")


class HttpMethod(StrEnum):
    """How a request is made over HTTP."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class Runs(StrEnum):
    """Where the work is done for a caller over HTTP.

    ``LEDGER``: reads or writes the ledger alone, in the API's own process. ``WORKER``: asks hosts
    or plans, in a worker process; the caller waits. ``OPERATION``: in a worker process, and the
    caller is answered as soon as an operation is reserved.
    """

    LEDGER = "ledger"
    WORKER = "worker"
    OPERATION = "operation"


@dataclass(frozen=True, slots=True)
class ParameterLimits:
    """What a parameter may be, for ``Annotated[...]``; texts are at most ``max_length`` long."""

    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[A]):
    """An answer: ``notes`` are lines for people, ``error`` is
    what went wrong although there is an answer (hosts that could not be read, VMs that failed).
    """

    answer: A
    notes: tuple[str, ...] = ()
    error: VgpumgrError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[P, A]):
    """One thing that can be asked.

    ``name`` is ``NOUN.VERB``; ``path`` is below ``/v1`` and names the parameters in it;
    ``permission`` is what the caller must have (None: no more than to be known); ``asks`` is a
    frozen dataclass of the parameters, ``answers`` the TypedDict of the answer, ``kind`` its
    ``kind``. An answer that is ``secret`` is told once, and kept nowhere; one that is ``personal``
    is another one for each caller. What is ``scoped`` shows and changes nothing outside the
    caller's scope; the rest is for callers who may see all tenants. Parameters that it ``conceals``
    are secrets. ``also`` are other permissions that its work asks for in some cases
    (``CallContext.scope_of``). ``size`` is how many VMs a
    change is about, where that is known. ``tag`` tells how the thing in the path is now: another
    text after each change of it.
    """

    name: str
    method: HttpMethod
    path: str
    permission: Permission | None
    summary: str
    asks: type[P]
    answers: type[A]
    kind: str
    work: Callable[[CallContext, P], Result[A]]
    tag: Callable[[CallContext, P], str] | None = None
    runs: Runs = Runs.LEDGER
    scoped: bool = False
    secret: bool = False
    personal: bool = False
    conceals: tuple[str, ...] = ()
    also: tuple[Permission, ...] = ()
    size: Callable[[P], int] = field(default=lambda _: 1)

    @property
    def changes(self) -> bool:
        """Is anything changed by it?"""
        return self.method is not HttpMethod.GET


AnyEndpoint = Endpoint[Any, Any]
