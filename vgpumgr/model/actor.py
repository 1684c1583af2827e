"""Who asks for a change: it belongs to the request, and follows it through threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import ParamSpec, TypeVar


class LoginMethod(StrEnum):
    """How it was established who asks."""

    SHELL = "shell"
    SERVE = "serve"
    SOCKET = "socket"
    TOKEN = "token"  # noqa: S105
    CERTIFICATE = "certificate"
    BROWSER = "browser"
    DIRECTORY = "directory"
    LOOPBACK = "loopback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asks. ``user`` is the name in the trail (``ada@example.org``, ``root@controller``),
    ``tenant`` the one acted for (empty: none, or all), ``address`` where the request came from
    (empty: this machine), ``credential`` the id of the token or session that was shown.
    """

    user: str
    tenant: str = ""
    method: LoginMethod = LoginMethod.SHELL
    address: str = ""
    credential: str = ""


_ACTOR: ContextVar[Actor | None] = ContextVar("vgpumgr-actor", default=None)


def current_actor() -> Actor | None:
    """Who asks, in this thread; None where nobody said (the process then acts for its own user)."""
    return _ACTOR.get()


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """What happens inside, also in threads that copy this context, is asked for by ``actor``."""
    token = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(token)


P = ParamSpec("P")
T = TypeVar("T")


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """``work`` for another thread, in which the actor is the same."""
    return partial(copy_context().run, work)
