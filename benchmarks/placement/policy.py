"""What a run asks of a policy, ours or a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request went: the host and its GPUs, as numbers in the sequence's order."""

    host: int
    gpus: tuple[int, ...]


class Policy(Protocol):
    """Decides one request after the other, knowing only the past."""

    def place(self, request: int, kind: int) -> Place | None:
        """Decide a request of this shape and hold what it takes; None is a refusal."""
        ...

    def release(self, request: int) -> None:
        """Give back what the request holds."""
        ...

    def rest(self) -> None:
        """What need not be done before the answer, after each; its time is not the decision's."""
        ...


@runtime_checkable
class TakesOrders(Policy, Protocol):
    """Decides the requests of a window together, in an order of its own."""

    def place_all(self, requests: Sequence[int], kinds: Sequence[int]) -> list[Place | None]:
        """Decide them and hold what they take; an answer per request, as these go."""
        ...
