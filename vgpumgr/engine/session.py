"""What every use case works with: one value, handed from function to function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from vgpumgr.engine.fencing import NoFencing
from vgpumgr.engine.observe import Observation, observe
from vgpumgr.engine.opening import Opening
from vgpumgr.engine.outcome import VmOutcome
from vgpumgr.engine.view import LedgerView, read_view
from vgpumgr.model.ports import Clock, Fencing, Host, Hosts, Lanes, Ledger
from vgpumgr.model.vm import PlacementPolicy

Progress = Callable[[VmOutcome], None]
Tell = Callable[[str], None]


def _silent(_: object) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A ledger, its hosts, and how they are worked on.

    ``fencing`` proves that lost hosts are off. ``stop`` is set by the first Ctrl-C. ``progress``
    hears of every task's end, ``tell`` of what a long one is doing.
    """

    ledger: Ledger
    hosts: Hosts
    lanes: Lanes
    clock: Clock
    new_uuid: Callable[[], str]
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST
    fencing: Fencing = field(default_factory=NoFencing)
    stop: threading.Event = field(default_factory=threading.Event)
    progress: Progress = _silent
    tell: Tell = _silent

    def refresh(self, names: Iterable[str] = ()) -> Observation:
        """Probe the named hosts (all without names) and keep what they show.

        A host in maintenance may be off: it is probed by its name only.
        """
        wanted = set(names)
        records = [
            h for h in self.ledger.hosts() if (h.name in wanted if wanted else not h.maintenance)
        ]
        return observe(records, self.hosts, self.ledger, self.lanes, self.clock)

    def refresh_all(self, among: Collection[str] = ()) -> tuple[str, ...]:
        """Probe every host (of those ``among``, if any are named) that is not in maintenance; a
        line for each that could not be, or was set aside.
        """
        wanted = [h for h in self.ledger.hosts() if not h.maintenance]
        records = [h for h in wanted if not among or h.name in among]
        seen = observe(records, self.hosts, self.ledger, self.lanes, self.clock)
        failed = (f"{host}: {error.message}" for host, error in seen.failed.items())
        return (*failed, *seen.set_aside)

    def view(self) -> LedgerView:
        """One reading of the ledger."""
        return read_view(self.ledger)

    def host(self, name: str) -> Host:
        """The enrolled host of that name; NotFound suggests near names."""
        return self.hosts.open(self.ledger.host(name))

    def opening(self) -> Opening:
        """What a new operation is opened with, now."""
        return Opening(self.ledger.epoch(), self.new_uuid, self.clock.now())
