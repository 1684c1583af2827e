"""One difference with the VM and host it is about, its remedy, and the report on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.engine.drift.host_comparison import DomainReads
from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import OFF, DomainFacts
from vgpumgr.model.drift import Drift, DriftKind, UnreadHost
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import VmRecord


class RemedyWay(StrEnum):
    """How a difference ends, in the order in which they are gone through.

    ``resume`` an operation that was cut; ``quarantine`` a GPU; ``layout`` partition it again;
    ``release`` units that nothing stands for; ``vm`` and ``clean``: steps on a host, for a VM and
    for what one left behind. ``you``: an operator must. ``leave``: it is not ours.
    """

    RESUME = "resume"
    QUARANTINE = "quarantine"
    LAYOUT = "layout"
    RELEASE = "release"
    VM = "vm"
    CLEAN = "clean"
    YOU = "you"
    LEAVE = "leave"


OURS = frozenset(RemedyWay) - {RemedyWay.YOU, RemedyWay.LEAVE}


@dataclass(frozen=True, slots=True)
class RemedyVm:
    """The VM that steps are for, living or not: its id, and its name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A remedy: ``text`` says what would be done, or why it is not; ``next`` is the command to use
    then.

    ``steps`` and ``whose`` are set for ``vm``, ``clean`` and ``release``.
    """

    drift: Drift
    way: RemedyWay
    text: str
    next: str = ""
    steps: tuple[Step, ...] = ()
    whose: RemedyVm | None = None

    @property
    def ours(self) -> bool:
        """Would ``heal`` do it?"""
        return self.way in OURS


def needs_you(drift: Drift, why: str, next: str = "") -> Remedy:
    """Only an operator can; ``next`` is what the difference itself advises, if not given."""
    return Remedy(drift=drift, way=RemedyWay.YOU, text=why, next=next or drift.next)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSelection:
    """Which differences are meant: of these hosts, VMs and kinds; empty: all."""

    hosts: tuple[str, ...] = ()
    vms: frozenset[str] = frozenset()
    kinds: frozenset[DriftKind] = frozenset()

    def means(self, found: Drift) -> bool:
        """Is a difference among them? Hosts were chosen when they were looked at."""
        return (not self.vms or found.vm in self.vms) and (
            not self.kinds or found.kind in self.kinds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealPlan:
    """Remedies as they would be, by host, and what could not be read."""

    remedies: tuple[Remedy, ...] = ()
    not_read: tuple[UnreadHost, ...] = ()
    hosts: int = 0
    vms: int = 0
    skipped: tuple[str, ...] = ()

    @property
    def to_do(self) -> tuple[Remedy, ...]:
        """The remedies that ``heal`` carries out."""
        return tuple(each for each in self.remedies if each.ours)

    @property
    def for_you(self) -> tuple[Remedy, ...]:
        """The remedies that only an operator can carry out."""
        return tuple(each for each in self.remedies if each.way is RemedyWay.YOU)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealReport:
    """The plan, how its tasks ended, and the drifts that are left after another look."""

    planned: HealPlan
    outcome: Outcome = field(default_factory=Outcome)
    left: HealPlan = field(default_factory=HealPlan)
    errors: tuple[VgpumgrError, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedRecords:
    """Records of the ledger that have ended: the proof that their remains may be removed.

    ``released`` are allocations by id, ``deleted`` the ids of VMs. An id in neither was never the
    ledger's, or is younger than an older copy of it.
    """

    released: Mapping[str, Allocation] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HealEvidence:
    """The evidence for every case; ``drifts`` are all drifts of the survey."""

    view: LedgerView
    seen: Mapping[str, DomainReads]
    past: EndedRecords
    sites: VmSites
    drifts: tuple[Drift, ...]


@dataclass(frozen=True, slots=True)
class DriftCase:
    """One difference."""

    drift: Drift
    known: HealEvidence

    @property
    def seen(self) -> DomainReads:
        """The reads of the drift's host."""
        return self.known.seen[self.drift.host]

    @property
    def host(self) -> HostRecord:
        """The drift's host."""
        return next(each for each in self.known.view.hosts if each.name == self.drift.host)

    @property
    def vm(self) -> VmRecord:
        """The VM that it is about."""
        return next(each for each in self.known.view.vms if each.name == self.drift.vm)

    @property
    def whose(self) -> RemedyVm:
        """The drift's VM, as a task names it."""
        return RemedyVm(self.vm.id, self.vm.name)

    @property
    def others(self) -> tuple[Drift, ...]:
        """Every difference of its VM, on whatever host."""
        return tuple(each for each in self.known.drifts if each.vm == self.drift.vm)

    @property
    def held(self) -> tuple[Allocation, ...]:
        """The allocations of the drift's VM."""
        return self.known.sites.allocations(self.vm)

    @property
    def allocation(self) -> Allocation | None:
        """The allocation whose device or claim the drift is about; None for a partition's claim."""
        subject = self.drift.subject
        return next((a for a in self.held if subject in {a.device, claim_unit(a)}), None)

    def domain(self, name: str) -> DomainFacts | None:
        """A domain of its host."""
        return next((each for each in self.seen.facts.domains if each.name == name), None)

    @property
    def runs(self) -> bool:
        """Does the domain of its VM run?"""
        found = self.domain(self.drift.vm)
        return found is not None and found.state not in OFF

    def lost(self, allocation: Allocation) -> bool:
        """Are device and claim of it both gone?"""
        subjects = {(each.kind, each.subject) for each in self.others}
        return {
            (DriftKind.DEVICE_MISSING, allocation.device),
            (DriftKind.CLAIM_MISSING, claim_unit(allocation)),
        } <= subjects

    def users(self, allocation: Allocation) -> tuple[str, ...]:
        """Domains of its host that name a device of an allocation."""
        devices = {allocation.device, *allocation.companions}
        domains = self.seen.facts.domains
        return tuple(each.name for each in domains if devices & set(each.devices))
