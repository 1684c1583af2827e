"""What every use case works with: one value, handed from function to function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from vgpumgr.engine.candidates import Candidates, lines
from vgpumgr.engine.fencing import NoFencing
from vgpumgr.engine.lanes import OneOfMany
from vgpumgr.engine.observe import Observation, Round, observe
from vgpumgr.engine.outlook import Expected, placing
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.running.outcome import VmOutcome
from vgpumgr.engine.view import LedgerView, read_view
from vgpumgr.model.errors import NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import OperationRecord, TaskRecord
from vgpumgr.model.placement import Decision, Fleet
from vgpumgr.model.ports import Clock, Fencing, Host, Hosts, Lanes, Ledger
from vgpumgr.model.refusal import TOLERANCE, Tolerance
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy, VmSpec
from vgpumgr.model.waits import WAITS, Waits

NOTHING: Mapping[str, VmSpec] = MappingProxyType({})

Progress = Callable[[VmOutcome], None]
Tell = Callable[[str], None]


def _silent(_: object) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A ledger, its hosts, and how they are worked on.

    ``expected`` is what placement by ``least-fragmentation`` goes by. ``fencing`` proves that lost
    hosts are off. ``tolerance`` is how much GPUs and hosts may refuse. ``stop`` is set by the first
    Ctrl-C; what it interrupts is left for ``left_s`` seconds to the person who pressed it.
    ``unasked``: no person asked for what this process does, a controller, which leaves such
    operations alone. ``progress`` hears of every task's end, ``tell`` of what a long one is doing.
    """

    ledger: Ledger
    hosts: Hosts
    lanes: Lanes
    clock: Clock
    new_uuid: Callable[[], str]
    policy: PlacementPolicy = DEFAULT_POLICY
    expected: Expected = field(default_factory=Expected)
    waits: Waits = WAITS
    tolerance: Tolerance = TOLERANCE
    fencing: Fencing = field(default_factory=NoFencing)
    stop: threading.Event = field(default_factory=threading.Event)
    left_s: float = 0.0
    unasked: bool = False
    progress: Progress = _silent
    tell: Tell = _silent

    def refresh(self, names: Iterable[str] = ()) -> Observation:
        """Probe the named hosts (all without names) and keep what they show.

        A host in maintenance may be off: it is probed by its name only.
        """
        wanted = set(names)
        records = self._named(wanted) if wanted else self._awake()
        return observe(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits)

    def refresh_all(self, among: Collection[str] = ()) -> tuple[str, ...]:
        """Probe every host (of those ``among``, if any are named) that is not in maintenance; a
        line for each that could not be, or was set aside.
        """
        records = self._awake(among)
        return lines(observe(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits))

    @contextmanager
    def looking(
        self, named: Collection[str] = (), *, others: bool = True, without: Collection[str] = ()
    ) -> Iterator[Candidates]:
        """Probe the hosts that somebody named, who are waited for, and with ``others`` all the
        rest, of which those that hang are not. None of ``without``, none that is in maintenance.
        """
        awake = self._awake(() if others else named)
        records = [host for host in awake if host.name not in without]
        waiting = OneOfMany(named=named, doubted=_doubted(records), waits=self.waits)
        with closing(
            Round(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits)
        ) as round_:
            yield Candidates(round_, waiting, {host.name: host.last_error for host in records})

    def _named(self, names: Collection[str]) -> list[HostRecord]:
        if len(names) > 1:
            return [host for host in self.ledger.hosts() if host.name in names]
        with suppress(NotFound):
            return [self.ledger.host(name) for name in names]
        return []

    def _awake(self, among: Collection[str] = ()) -> list[HostRecord]:
        awake = [host for host in self.ledger.hosts() if not host.at_rest]
        return [host for host in awake if not among or host.name in among]

    def view(self) -> LedgerView:
        """One reading of the ledger."""
        return read_view(self.ledger)

    def place(
        self, fleet: Fleet, requests: Sequence[VmSpec], *, kept: Sequence[VmSpec] = ()
    ) -> tuple[Decision, ...]:
        """Decide all of them, each using up supply for the next, ``kept`` first; nothing is
        reserved.
        """
        decide = placing(self.policy, self.expected, self.ledger, self.clock.now())
        return decide(fleet, requests, kept=kept)

    def host(self, name: str) -> Host:
        """The enrolled host of that name; NotFound suggests near names."""
        return self.hosts.open(self.ledger.host(name))

    def opening(self, within: OperationRecord | None = None) -> Opening:
        """What a new operation is opened with, now, or more tasks of one that there is."""
        return Opening(self.ledger.epoch(), self.new_uuid, self.clock.now(), within)

    def reserve_alternates(
        self, operation: str, specs: Mapping[str, VmSpec] = NOTHING
    ) -> tuple[TaskRecord, ...]:
        """New tasks, reserved, for VMs of an open operation that were refused and fit at another
        place; ``specs`` are theirs by name, as far as they are known. A session alone plans
        nothing: an engine does.
        """
        return ()


def _doubted(records: Collection[HostRecord]) -> frozenset[str]:
    """The hosts whose last look failed. Where that is most of them, it need not have been they."""
    failed = frozenset(host.name for host in records if host.last_error)
    return failed if 2 * len(failed) <= len(records) else frozenset()
