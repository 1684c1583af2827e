"""The context of every use case: ledger, hosts, workers, clock and policy as one value."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from vgpumgr.engine.inventory.ledger_view import LedgerView, named_hosts, read_view
from vgpumgr.engine.inventory.observation import (
    NO_ANSWERS,
    CandidateProbes,
    Observation,
    ProbeAnswer,
    ProbeRound,
    lines,
    observe,
)
from vgpumgr.engine.operations.expected_requests import ExpectedRequests, place_function
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.workers.thread_workers import WaitForCandidates
from vgpumgr.model.errors import NotFound, NotPermitted
from vgpumgr.model.failover import NO_RESERVE, FailoverReserve
from vgpumgr.model.host import HostRecord, Proof
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.load_scale import LoadSource, NoLoadSource
from vgpumgr.model.operation import OperationRecord, TaskRecord
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.ports import WAIT_LIMITS, Clock, Fencing, Host, HostExecutor, Hosts, WaitLimits
from vgpumgr.model.refusal import TOLERANCE, Tolerance
from vgpumgr.model.secret import SecretReader, SecretValue
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy, VmSpec


class NoFencing:
    """``ports.Fencing`` of a context that was given none."""

    def switch_off(self, host: HostRecord) -> Proof:
        """Never."""
        raise NotPermitted(f"{host.name} cannot be switched off from here")

    def proof(self, host: HostRecord) -> Proof | None:
        """None."""
        return None


class NoSecrets:
    """``model.secret.SecretReader`` of a context that was given none."""

    def read(self, tenant: str, name: str) -> SecretValue:
        """Never."""
        raise NotFound(f"no secret {name} of tenant {tenant}", next=f"vgpumgr secret set {name}")


NOTHING: Mapping[str, VmSpec] = MappingProxyType({})

Progress = Callable[[VmOutcome], None]
Tell = Callable[[str], None]


def _silent(_: object) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The context of use cases: a ledger, its hosts, and the rules by which they are worked on.

    ``expected`` is the basis of placement by ``capacity-first``. ``fencing`` proves that lost
    hosts are off, ``secrets`` is where values of secrets are read. ``tolerance`` is how much GPUs
    and hosts may refuse. ``stop`` is set by the first Ctrl-C; interrupted operations are left for
    ``left_s`` seconds to the person that pressed it. ``unasked``: this process is a controller, not
    a person's command, and leaves such operations alone. ``reserve`` is what is kept for lost
    hosts, ``loads`` where the loads of VMs are found.
    ``begun`` hears of an operation (its id) once it is reserved and before a host is asked,
    ``progress`` of every task's end, ``tell`` of the progress of a long task.
    """

    ledger: Ledger
    hosts: Hosts
    lanes: HostExecutor
    clock: Clock
    new_uuid: Callable[[], str]
    policy: PlacementPolicy = DEFAULT_POLICY
    expected: ExpectedRequests = field(default_factory=ExpectedRequests)
    waits: WaitLimits = WAIT_LIMITS
    tolerance: Tolerance = TOLERANCE
    fencing: Fencing = field(default_factory=NoFencing)
    secrets: SecretReader = field(default_factory=NoSecrets)
    stop: threading.Event = field(default_factory=threading.Event)
    left_s: float = 0.0
    unasked: bool = False
    reserve: FailoverReserve = NO_RESERVE
    loads: LoadSource = field(default_factory=NoLoadSource)
    begun: Callable[[str], None] = _silent
    progress: Progress = _silent
    tell: Tell = _silent

    def refresh(
        self, names: Iterable[str] = (), answers: Mapping[str, ProbeAnswer] = NO_ANSWERS
    ) -> Observation:
        """Probe the named hosts (all without names) and keep what they show; hosts of ``answers``
        were probed just now.

        A host in maintenance may be off: it is probed by its name only.
        """
        wanted = set(names)
        records = named_hosts(self.ledger, wanted) if wanted else self._awake()
        return observe(
            records, self.hosts, self.ledger, self.lanes, self.clock, self.waits, answers
        )

    def refresh_all(self, among: Collection[str] = ()) -> tuple[str, ...]:
        """Probe every host (of ``among``, if any are named) that is not in maintenance; a line for
        each host that failed, or was set aside.
        """
        records = self._awake(among)
        return lines(observe(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits))

    @contextmanager
    def looking(
        self,
        named: Collection[str] = (),
        *,
        others: bool = True,
        among: Collection[str] = (),
        without: Collection[str] = (),
    ) -> Iterator[CandidateProbes]:
        """Probe the hosts named by the user, which are waited for, and with ``others`` all the rest
        (of ``among``, if any are named), of which hosts that hang are not. None of ``without``,
        none that is in maintenance.
        """
        awake = self._awake(among if others else named)
        records = [host for host in awake if host.name not in without]
        waiting = WaitForCandidates(named=named, doubted=_doubted(records), waits=self.waits)
        with closing(
            ProbeRound(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits)
        ) as round_:
            yield CandidateProbes(round_, waiting, {host.name: host.last_error for host in records})

    def _awake(self, among: Collection[str] = ()) -> list[HostRecord]:
        hosts = named_hosts(self.ledger, among) if among else self.ledger.hosts()
        return [host for host in hosts if not host.at_rest]

    def view(self) -> LedgerView:
        """One reading of the ledger."""
        return replace(read_view(self.ledger), reserve=self.reserve)

    def place(
        self,
        fleet: Fleet,
        requests: Sequence[VmSpec],
        *,
        kept: Sequence[VmSpec] = (),
        taken: Sequence[Placed] = (),
    ) -> tuple[Decision, ...]:
        """Decide all of them, each using up supply for the next, ``taken`` and ``kept`` first;
        nothing is reserved.
        """
        decide = place_function(self.policy, self.expected, self.ledger, self.clock.now())
        return decide(fleet, requests, kept=kept, taken=taken)

    def host(self, name: str) -> Host:
        """The enrolled host of that name; NotFound suggests near names."""
        return self.hosts.open(self.ledger.host(name))

    def opening(self, within: OperationRecord | None = None) -> OperationOpening:
        """The opening of a new operation now, or of more tasks ``within`` an existing one."""
        return OperationOpening(self.ledger.epoch(), self.new_uuid, self.clock.now(), within)

    def reserve_alternates(
        self, operation: str, specs: Mapping[str, VmSpec] = NOTHING
    ) -> tuple[TaskRecord, ...]:
        """New tasks, reserved, for VMs of an open operation that were refused and fit at another
        place; ``specs`` are the known specs by name. A context alone plans nothing: an engine does.
        """
        return ()

    def reserve_wave(self, operation: str) -> tuple[TaskRecord, ...]:
        """The tasks, reserved, of the next wave of a rolling change, once the VMs of the wave
        before run again; none where something is open, or no wave is left. Raises why the next may
        not begin. A context alone plans nothing: an engine does.
        """
        return ()


def _doubted(records: Collection[HostRecord]) -> frozenset[str]:
    """The hosts whose last look failed; none where that is most of them, for the fault may be
    elsewhere.
    """
    failed = frozenset(host.name for host in records if host.last_error)
    return failed if 2 * len(failed) <= len(records) else frozenset()
