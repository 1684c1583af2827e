"""The context of every use case: ledger, hosts, workers, clock and policy as one value."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from vgpumgr.engine.inventory.ledger_view import LedgerView, read_view
from vgpumgr.engine.inventory.observation import (
    CandidateProbes,
    Observation,
    ProbeRound,
    lines,
    observe,
)
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.workers.thread_workers import WaitForCandidates
from vgpumgr.model.errors import NotFound, NotPermitted
from vgpumgr.model.history import RequestOutcome, RequestRecord
from vgpumgr.model.host import HostRecord, Proof
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import OperationRecord, TaskRecord
from vgpumgr.model.placement import Decision
from vgpumgr.model.ports import WAIT_LIMITS, Clock, Fencing, Host, HostExecutor, Hosts, WaitLimits
from vgpumgr.model.refusal import TOLERANCE, Tolerance
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, place
from vgpumgr.placement.batch.batch_problem import Solver
from vgpumgr.placement.capacity_plan.plan_maker import FEWEST, make_plan
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan
from vgpumgr.placement.request_mix import FIRST_MIX, REMEMBERED, made_by


class NoFencing:
    """``ports.Fencing`` of a context that was given none."""

    def switch_off(self, host: HostRecord) -> Proof:
        """Never."""
        raise NotPermitted(f"{host.name} cannot be switched off from here")

    def proof(self, host: HostRecord) -> Proof | None:
        """None."""
        return None


_LEAST = PlacementPolicy.LEAST_FRAGMENTATION


class PlaceFunction(Protocol):
    """Decides requests, each using up supply for the others."""

    def __call__(
        self, fleet: Fleet, requests: Sequence[VmSpec], *, kept: Sequence[VmSpec] = ()
    ) -> tuple[Decision, ...]:
        """A decision for each request; VMs of ``kept`` take their places before them."""


Weights = tuple[tuple[VmSpec, float], ...]

# How far back requests tell what will come.
HISTORY_S = 30 * 86_400.0
# A plan serves for so long; where none could be made, that is tried again after so long.
PLAN_LASTS_S, NO_PLAN_LASTS_S = 3_600.0, 60.0
# What was asked for is read anew after so long: twenty thousand requests take most of a second.
HISTORY_LASTS_S = 60.0
# A declared mix stands for as many requests.
_DECLARED = 1_000


@dataclass(frozen=True, slots=True)
class PlacementOutlook:
    """The expected mix of requests and the plan for it; ``mix`` None: all profiles alike.

    ``missing`` says why no plan could be made; None too where too few requests are known for one.
    """

    mix: Mix | None = None
    plan: CapacityPlan | None = None
    missing: NoPlan | None = None

    @property
    def warning(self) -> str:
        """The warning that a plan is lacking where it would do good; empty otherwise."""
        if self.missing is None or not self.missing.is_a_loss:
            return ""
        return f"VMs are placed without a plan of what is expected: {self.missing}"


def _nothing() -> Weights:
    return ()


class ExpectedRequests:
    """The declared mix, else the requests of the last 30 days. Keeps the plan that it made last.

    ``latest`` is what decisions went by last. ``declared`` is asked for when a mix is first needed.
    ``solver`` is what orders that do not fit one by one are tried with.
    """

    def __init__(
        self, declared: Callable[[], Weights] = _nothing, solver: Solver | None = None
    ) -> None:
        self.solver = solver
        self.latest = PlacementOutlook()
        self._declared = declared
        self._plan: CapacityPlan | NoPlan | None = None
        self._made_at: float | None = None
        self._asked: list[VmSpec] = []
        self._read_at: float | None = None

    @property
    def words(self) -> str:
        """The source of the mix, where there is one."""
        return "the declared mix" if self._declared() else "the requests of the last 30 days"

    def mix(self, ledger: Ledger, now: float, fleet: Fleet) -> Mix | None:
        """The mix alone."""
        return self._mix(self._declared() or None, ledger, now, fleet)[0]

    def outlook(self, ledger: Ledger, now: float, fleet: Fleet) -> PlacementOutlook:
        """Mix and plan for a fleet as it is now (Unix seconds)."""
        mix, history = self._mix(self._declared() or None, ledger, now, fleet)
        if self._is_due(now):
            self._plan = make_plan(fleet, history) if len(history) >= FEWEST else None
            self._made_at = now
        if isinstance(self._plan, CapacityPlan):
            self.latest = PlacementOutlook(mix, self._plan)
        else:
            self.latest = PlacementOutlook(mix, missing=self._plan)
        return self.latest

    def _is_due(self, now: float) -> bool:
        lasts = PLAN_LASTS_S if isinstance(self._plan, CapacityPlan) else NO_PLAN_LASTS_S
        return self._made_at is None or now - self._made_at > lasts

    def _mix(
        self, declared: Weights | None, ledger: Ledger, now: float, fleet: Fleet
    ) -> tuple[Mix | None, Sequence[VmSpec]]:
        """The mix, and the requests that a plan is made of."""
        if declared is not None:
            made = made_by(fleet, [spec for spec, _ in declared])
            known = tuple(each for each in declared if each[0] in made)
            return (Mix(known) if known else None), _spread(known)
        if self._read_at is None or now - self._read_at > HISTORY_LASTS_S:
            self._asked = asked(ledger.requests(since=now - HISTORY_S, limit=REMEMBERED))
            self._read_at = now
        history = made_by(fleet, self._asked)
        return (Mix.of(history) if len(history) >= FIRST_MIX else None), history


def place_function(
    policy: PlacementPolicy, expected: ExpectedRequests, ledger: Ledger, now: float
) -> PlaceFunction:
    """``placement.place`` by the policy, which goes by what is expected where that matters."""

    def decide(
        fleet: Fleet, requests: Sequence[VmSpec], *, kept: Sequence[VmSpec] = ()
    ) -> tuple[Decision, ...]:
        if all((each.policy or policy) is not _LEAST for each in requests):
            return place(fleet, requests, policy, kept=kept)
        found = expected.outlook(ledger, now, fleet)
        return place(
            fleet, requests, policy,
            kept=kept, mix=found.mix, plan=found.plan, solver=expected.solver,
        )  # fmt: skip

    return decide


def asked(newest_first: Iterable[RequestRecord]) -> list[VmSpec]:
    """Past requests, the oldest first: a refused VM counts once, however often it was tried, and
    not where it was placed later.
    """
    found: list[VmSpec] = []
    counted: set[str] = set()
    for request in newest_first:
        if request.answer is RequestOutcome.PLACED or request.vm not in counted:
            found.append(request.spec)
        counted.add(request.vm)
    return found[::-1]


def _spread(weights: Weights) -> list[VmSpec]:
    total = sum(weight for _, weight in weights)
    return [
        spec for spec, weight in weights for _ in range(max(1, round(_DECLARED * weight / total)))
    ]


NOTHING: Mapping[str, VmSpec] = MappingProxyType({})

Progress = Callable[[VmOutcome], None]
Tell = Callable[[str], None]


def _silent(_: object) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The context of use cases: a ledger, its hosts, and the rules by which they are worked on.

    ``expected`` is the basis of placement by ``least-fragmentation``. ``fencing`` proves that lost
    hosts are off. ``tolerance`` is how much GPUs and hosts may refuse. ``stop`` is set by the first
    Ctrl-C; interrupted operations are left for ``left_s`` seconds to the person that pressed it.
    ``unasked``: this process is a controller, not a person's command, and leaves such operations
    alone. ``progress`` is called at every task's end, ``tell`` with the progress of a long task.
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
        """Probe every host (of ``among``, if any are named) that is not in maintenance; a line for
        each host that failed, or was set aside.
        """
        records = self._awake(among)
        return lines(observe(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits))

    @contextmanager
    def looking(
        self, named: Collection[str] = (), *, others: bool = True, without: Collection[str] = ()
    ) -> Iterator[CandidateProbes]:
        """Probe the hosts named by the user, which are waited for, and with ``others`` all the
        rest, of which hosts that hang are not. None of ``without``, none that is in maintenance.
        """
        awake = self._awake(() if others else named)
        records = [host for host in awake if host.name not in without]
        waiting = WaitForCandidates(named=named, doubted=_doubted(records), waits=self.waits)
        with closing(
            ProbeRound(records, self.hosts, self.ledger, self.lanes, self.clock, self.waits)
        ) as round_:
            yield CandidateProbes(round_, waiting, {host.name: host.last_error for host in records})

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
        decide = place_function(self.policy, self.expected, self.ledger, self.clock.now())
        return decide(fleet, requests, kept=kept)

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


def _doubted(records: Collection[HostRecord]) -> frozenset[str]:
    """The hosts whose last look failed; none where that is most of them, for the fault may be
    elsewhere.
    """
    failed = frozenset(host.name for host in records if host.last_error)
    return failed if 2 * len(failed) <= len(records) else frozenset()
