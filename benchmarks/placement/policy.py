"""What a run asks of a policy, ours or a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
