"""Operations that turns of this process go on with: one claim, shared by several hosts' turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vgpumgr.model.ports import Ledger

Close = Callable[[str, str], None]


class _Held:
    """How many turns work on an operation, and why some of them could not end it."""

    def __init__(self) -> None:
        self.turns = 0
        self.reasons: list[str] = []


class OperationClaims:
    """Each is claimed for as long as a turn works on it, not for the life of the process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: dict[str, _Held] = {}
        self._guard = threading.Lock()

    @contextmanager
    def hold(self, operation: str, close: Close) -> Iterator[list[str] | None]:
        """A list for reasons why it cannot be ended; None while another process works on it.

        The last turn that lets go calls ``close`` with the operation and all reasons: it has to
        write down how the operation stands, which is what gives the claim back.
        """
        held = self._take(operation)
        try:
            yield held.reasons if held else None
        finally:
            if held:
                self._let_go(operation, held, close)

    def __contains__(self, operation: str) -> bool:
        return operation in self._held

    def _take(self, operation: str) -> _Held | None:
        with self._guard:
            held = self._held.get(operation)
            if held is None:
                if not self._ledger.claim_operation(operation):
                    return None
                held = self._held[operation] = _Held()
            held.turns += 1
            return held

    def _let_go(self, operation: str, held: _Held, close: Close) -> None:
        with self._guard:
            held.turns -= 1
            if not held.turns:
                del self._held[operation]
                close(operation, "; ".join(held.reasons))
