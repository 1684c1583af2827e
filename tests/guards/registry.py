"""What a guard is, and how it is shown to be one.

A guard keeps something bad from happening. Its scenario tries the bad thing with every other guard
taken away: it must fail to happen while the guard is there, and happen when it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

Removal = Callable[[], AbstractContextManager[object]]


class Happened(AssertionError):
    """The bad thing."""


@dataclass(frozen=True)
class Place:
    """Where a scenario is played: a folder of its own, and a ledger's address for it."""

    folder: Path
    ledger: str


@dataclass(frozen=True)
class Guard:
    """``where`` it lives, the ``bad`` outcome that it prevents, how it is ``removed``.

    ``beside`` are the other guards that would prevent the same: they are taken away always. The
    scenario raises Happened. ``server_too``: it guards the ledger, so both stores are tried.
    """

    name: str
    where: str
    bad: str
    removed: Removal
    scenario: Callable[[Place], None]
    beside: tuple[Removal, ...] = ()
    server_too: bool = False


def holds(guard: Guard, place: Place) -> bool:
    """With this guard alone: does it keep the bad thing from happening?"""
    return _survives(guard, place, guard.beside)


def holds_without(guard: Guard, place: Place) -> bool:
    """With none at all. It must not hold, or the scenario shows nothing."""
    return _survives(guard, place, (*guard.beside, guard.removed))


def _survives(guard: Guard, place: Place, away: Iterable[Removal]) -> bool:
    with ExitStack() as stack:
        for removal in away:
            stack.enter_context(removal())
        try:
            guard.scenario(place)
        except Happened:
            return False
    return True


def patched(target: object, name: str, new: Any) -> Removal:
    """A removal: ``target.name`` is ``new`` meanwhile."""
    return lambda: mock.patch.object(target, name, new)


def wrapped(target: object, name: str, wrap: Callable[[Any], Any]) -> Removal:
    """A removal: ``target.name`` is ``wrap`` of what it is at that time."""

    @contextmanager
    def removed() -> Iterator[None]:
        with mock.patch.object(target, name, wrap(getattr(target, name))):
            yield

    return removed
