"""The fragmentation gauge, looked at now and then: moves are proposed when it rises too high."""

from __future__ import annotations

from vgpumgr.engine.headroom.gauge import Gauging
from vgpumgr.engine.reconcile.events import Emit, Event, EventKind
from vgpumgr.engine.session import Session
from vgpumgr.engine.supply import build_fleet

# Between two looks, in seconds: measuring a large fleet takes one.
EVERY_S = 600.0
# A share that is never more than that.
NEVER = 1.0


class GaugeWatch:
    """Tells once when more than ``most`` of the free GPU memory is of no use, and once when it is
    over; ``high`` meanwhile. Nothing is moved.
    """

    def __init__(self, session: Session, most: float, emit: Emit) -> None:
        self._session = session
        self.most = most
        self._emit = emit
        self.high = False
        self._due = 0.0

    def look(self) -> None:
        """Measure, if it is due."""
        now = self._session.clock.monotonic()
        if now < self._due or self.most >= NEVER:
            return
        self._due = now + EVERY_S
        ledger, at = self._session.ledger, self._session.clock.now()
        fleet = build_fleet(self._session.view())
        gauge = Gauging(fleet, self._session.expected, ledger, at).gauge()
        before, self.high = self.high, gauge.share > self.most
        words = f"{gauge.share:.0%} of the free GPU memory is unusable for {gauge.mix}"
        if self.high and not before:
            text = f"{words}, more than {self.most:.0%}"
            kind = EventKind.FRAGMENTED
            self._emit(Event(kind=kind, text=text, next="vgpumgr defrag plan"))
        elif before and not self.high:
            self._emit(Event(kind=EventKind.FRAGMENTED_ENDED, text=f"resolved: {words}"))
