"""How the ledger stands, told where it changes: frozen or not, failing or not."""

from __future__ import annotations

from vgpumgr.engine.reconcile.events import Emit, Event, EventKind
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.ports import Ledger


class LedgerState:
    """What a controller has told of its ledger."""

    def __init__(self, ledger: Ledger, emit: Emit) -> None:
        self._ledger = ledger
        self._emit = emit
        self._failing = ""
        self.frozen = ""

    def tell_frozen(self) -> None:
        """A look may have shown that it is older than the hosts."""
        found = self._ledger.frozen()
        before, self.frozen = self.frozen, found.why if found else ""
        if self.frozen and not before:
            text = f"allocation is suspended: {self.frozen}"
            self._emit(Event(kind=EventKind.LEDGER_FROZEN, text=text, next="vgpumgr store thaw"))
        elif before and not self.frozen:
            self._emit(Event(kind=EventKind.LEDGER_THAWED, text="the ledger allocates again"))

    def works(self) -> None:
        """A round went well with it."""
        self._failing = ""

    def failed(self, error: LedgerError) -> None:
        """Told once; the round is tried again."""
        if str(error) != self._failing:
            self._failing = str(error)
            kind = EventKind.LEDGER_FAILED
            self._emit(Event(kind=kind, text=f"{error.message}: {error.why}", next=error.next))
