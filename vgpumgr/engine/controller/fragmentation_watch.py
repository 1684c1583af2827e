"""Fragmentation as `serve` watches it: measured every ten minutes, told once when it is high."""

from __future__ import annotations

from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.operations.engine_context import EngineContext

# Between two looks, in seconds: measuring a large fleet takes one.
EVERY_S = 600.0


# A share that is never more than that.
NEVER = 1.0


class GaugeWatch:
    """Tells once when more than ``most`` of the free GPU memory is of no use, and once when it is
    over; ``high`` meanwhile. Nothing is moved.
    """

    def __init__(self, context: EngineContext, most: float, emit: Emit) -> None:
        self._context = context
        self.most = most
        self._emit = emit
        self.high = False
        self._due = 0.0

    def look(self) -> None:
        """Measure, if it is due."""
        now = self._context.clock.monotonic()
        if now < self._due or self.most >= NEVER:
            return
        self._due = now + EVERY_S
        ledger, at = self._context.ledger, self._context.clock.now()
        fleet = build_fleet(self._context.view())
        gauge = FragmentationMeasure(fleet, self._context.expected, ledger, at).gauge()
        before, self.high = self.high, gauge.share > self.most
        words = f"{gauge.share:.0%} of the free GPU memory is unusable for {gauge.mix}"
        if self.high and not before:
            text = f"{words}, more than {self.most:.0%}"
            kind = EventKind.FRAGMENTED
            self._emit(ControllerEvent(kind=kind, text=text, next="vgpumgr defrag plan"))
        elif before and not self.high:
            self._emit(ControllerEvent(kind=EventKind.FRAGMENTED_ENDED, text=f"resolved: {words}"))
