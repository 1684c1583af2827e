"""One difference with all that is known of the VM and the host that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.engine.creation.sites import Sites
from vgpumgr.engine.drift.seen import Seen
from vgpumgr.engine.heal.remedy import Whose
from vgpumgr.engine.steps import OFF
from vgpumgr.engine.supply import claim_unit
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import Allocation, VmRecord


@dataclass(frozen=True, slots=True)
class Past:
    """What the ledger remembers of things that ended: it is the proof that they may go.

    ``released`` are allocations by id, ``deleted`` the ids of VMs. An id that is in neither was
    never the ledger's, or is of a time that an older copy of it does not know.
    """

    released: Mapping[str, Allocation] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What every case is judged by; ``drifts`` are all that were found."""

    view: LedgerView
    seen: Mapping[str, Seen]
    past: Past
    sites: Sites
    drifts: tuple[Drift, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One difference."""

    drift: Drift
    known: Known

    @property
    def seen(self) -> Seen:
        """What was seen of its host."""
        return self.known.seen[self.drift.host]

    @property
    def host(self) -> HostRecord:
        """Its host."""
        return next(each for each in self.known.view.hosts if each.name == self.drift.host)

    @property
    def vm(self) -> VmRecord:
        """The VM that it is about."""
        return next(each for each in self.known.view.vms if each.name == self.drift.vm)

    @property
    def whose(self) -> Whose:
        """The same, as a task names it."""
        return Whose(self.vm.id, self.vm.name)

    @property
    def others(self) -> tuple[Drift, ...]:
        """Every difference of its VM, on whatever host."""
        return tuple(each for each in self.known.drifts if each.vm == self.drift.vm)

    @property
    def held(self) -> tuple[Allocation, ...]:
        """What its VM holds."""
        return self.known.sites.allocations(self.vm)

    @property
    def allocation(self) -> Allocation | None:
        """The one whose device or claim it is about; None for a partition's claim."""
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
