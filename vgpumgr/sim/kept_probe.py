"""The helper's answer to a probe, kept by a simulated host until something may have changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class KeptProbe:
    """Once a part of the host is handed out, nothing is kept: it may change at any time."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] | None = None
        self._outside: object = None
        self._handed_out = False

    def changed(self) -> None:
        """Forget it."""
        self._answer = None

    def hand_out(self) -> None:
        """Keep none from now on."""
        self._answer, self._handed_out = None, True

    def whole(
        self, read: Callable[[], dict[str, Any]], *, quiet: bool, outside: object = None
    ) -> dict[str, Any]:
        """What ``read`` gives. ``quiet``: it stays so until a call, or while ``outside`` is equal:
        what other hosts change of it.
        """
        if self._answer is not None and self._outside == outside:
            return self._answer
        answer = read()
        if quiet and not self._handed_out:
            self._answer, self._outside = answer, outside
        return answer
