"""What every use case works with: one value, handed from function to function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vgpumgr.engine.observe import Observation, observe
from vgpumgr.engine.opening import Opening
from vgpumgr.engine.outcome import VmOutcome
from vgpumgr.engine.view import LedgerView, read_view
from vgpumgr.model.ports import Clock, Host, Hosts, Lanes, Ledger
from vgpumgr.model.vm import PlacementPolicy

Progress = Callable[[VmOutcome], None]
Tell = Callable[[str], None]


def _silent(_: object) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A ledger, its hosts, and how they are worked on.

    ``stop`` is set by the first Ctrl-C. ``progress`` hears of every task's end, ``tell`` of what
    a long one is doing.
    """

    ledger: Ledger
    hosts: Hosts
    lanes: Lanes
    clock: Clock
    new_uuid: Callable[[], str]
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST
    stop: threading.Event = field(default_factory=threading.Event)
    progress: Progress = _silent
    tell: Tell = _silent

    def refresh(self, names: Iterable[str] = ()) -> Observation:
        """Probe the named hosts (all without names) and keep what they show."""
        wanted = set(names)
        records = [h for h in self.ledger.hosts() if not wanted or h.name in wanted]
        return observe(records, self.hosts, self.ledger, self.lanes, self.clock)

    def refresh_all(self) -> tuple[str, ...]:
        """Probe every host; a line for each that could not be."""
        failed = self.refresh().failed
        return tuple(f"{host}: {error.message}" for host, error in failed.items())

    def view(self) -> LedgerView:
        """One reading of the ledger."""
        return read_view(self.ledger)

    def host(self, name: str) -> Host:
        """The enrolled host of that name; NotFound suggests near names."""
        return self.hosts.open(self.ledger.host(name))

    def opening(self) -> Opening:
        """What a new operation is opened with, now."""
        return Opening(self.ledger.epoch(), self.new_uuid, self.clock.now())
