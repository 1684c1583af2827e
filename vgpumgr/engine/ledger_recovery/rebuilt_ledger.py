"""Rows that hosts know and the ledger lacks, and VMs that are surely gone from every host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.rollback_detection import (
    claims_of,
    domains_of,
    is_layout,
    is_of_nic,
    ledger_is_behind,
)
from vgpumgr.engine.ledger_recovery import rebuilt_records
from vgpumgr.engine.ledger_recovery.rebuilt_records import (
    ClaimNotTaken,
    HostAllocations,
    rebuilt_allocation,
)
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts, Ownership
from vgpumgr.model.host import ClaimFacts, HostFacts
from vgpumgr.model.ledger_state import HostsTruth, Remembered
from vgpumgr.model.vm import VmRecord

_TELLING = frozenset({"claims", "libvirt", "domains", "helper", "mdevs"})


def traces(
    vm: VmRecord, seen: Mapping[str, HostFacts], held: Iterable[Allocation]
) -> tuple[str, ...]:
    """The traces of a VM: an unread host, a domain, a claim, a device."""
    return tuple(_traces(vm, seen, tuple(held)))


def unread(facts: HostFacts) -> bool:
    """Could a part of the probe not be read that a VM may be in?"""
    return bool(_TELLING & {each.part.split(" ")[0] for each in facts.unknown})


def _traces(
    vm: VmRecord, seen: Mapping[str, HostFacts], held: tuple[Allocation, ...]
) -> Iterator[str]:
    for host in {vm.host, *(each.host for each in held)}:
        facts = seen.get(host)
        if facts is None or unread(facts):
            yield f"{host} could not be read completely"
            continue
        yield from _on(vm, facts, [each for each in held if each.host == host])


def _on(vm: VmRecord, facts: HostFacts, held: Iterable[Allocation]) -> Iterator[str]:
    for domain in facts.domains:
        mark = domain.ownership
        if domain.uuid == vm.id or (mark and mark.vm_id == vm.id):
            yield f"domain {domain.name} on {facts.host}"
    for each in held:
        if any(claim.allocation == each.id for claim in facts.claims):
            yield f"the claim of {each.device} on {facts.host}"
        if any(mdev.uuid == each.device for mdev in facts.mdevs):
            yield f"mdev {each.device} on {facts.host}"


@dataclass(frozen=True, slots=True)
class RebuiltRow:
    """One thing that a host knows. ``conflict`` says what keeps the ledger from taking it in."""

    host: str
    vm: str
    text: str
    conflict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReads:
    """The reads of a fleet: probes by host, and closer looks by host and domain."""

    seen: Mapping[str, HostFacts]
    found: Mapping[tuple[str, str], rebuilt_records.RebuiltDomain]
    view: LedgerView
    known: Remembered
    now: float
    new_uuid: Callable[[], str]


@dataclass(slots=True)
class LedgerRebuild:
    """Goes through a sight; ``lines`` and :meth:`truth` are what comes of it."""

    sight: FleetReads
    forget: frozenset[str] = frozenset()
    lines: list[RebuiltRow] = field(default_factory=list)
    _vms: dict[str, VmRecord] = field(default_factory=dict)
    _changed: dict[str, VmRecord] = field(default_factory=dict)
    _taken: list[Allocation] = field(default_factory=list)
    _given_back: list[str] = field(default_factory=list)
    _gpus: dict[str, int] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)

    def truth(self) -> HostsTruth:
        """The rows that can be taken in; of a VM with a part that cannot, none."""
        for host, facts in self.sight.seen.items():
            for domain in domains_of(facts, self.sight.known.fleet):
                self._domain(host, domain)
        self._give_back()
        for host, facts in self.sight.seen.items():
            for claim in claims_of(facts, self.sight.known.fleet):
                self._claim(host, claim)
        return self._collected()

    def _collected(self) -> HostsTruth:
        held = [each for each in self._taken if each.vm_id not in self._refused]
        return HostsTruth(
            vms=tuple(
                vm
                if vm.definition
                else rebuilt_records.with_gpus(vm, (a for a in held if a.vm_id == id_))
                for id_, vm in self._vms.items()
                if id_ not in self._refused
            ),
            changed=tuple(vm for id_, vm in self._changed.items() if id_ not in self._refused),
            allocations=tuple(held),
            given_back=tuple(self._given_back),
            gpus=dict(self._gpus),
            forgotten=tuple(vm.id for vm in self.sight.view.vms if vm.name in self.forget),
        )

    # -- domains -------------------------------------------------------------------------------

    def _domain(self, host: str, domain: DomainFacts) -> None:
        mark = domain.ownership
        if mark is None or not ledger_is_behind(
            self.sight.known.vms.get(mark.vm_id), mark.generation
        ):
            return
        other = self._vms.get(mark.vm_id) or self._changed.get(mark.vm_id)
        if other is not None:
            self._refuse(host, mark, f"it is on {other.host} as well: undefine the one that is off")
            return
        try:
            self._describe(host, domain, mark)
        except rebuilt_records.DomainNotRead as reason:
            self._refuse(host, mark, str(reason))

    def _describe(self, host: str, domain: DomainFacts, mark: Ownership) -> None:
        found = self.sight.found.get((host, domain.name))
        if found is None:
            raise rebuilt_records.DomainNotRead("its definition could not be read")
        old = next((vm for vm in self.sight.view.vms if vm.id == mark.vm_id), None)
        if old is not None:
            self._require_left(old, host)
            self._changed[old.id] = rebuilt_records.changed_vm(
                old, domain, found, host, self.sight.now
            )
            self.lines.append(RebuiltRow(host, mark.vm, f"at generation {mark.generation}"))
            return
        if mark.vm_id in self.sight.known.vms:
            raise rebuilt_records.DomainNotRead("the ledger says it was deleted")
        self._require_name(mark.vm)
        self._vms[mark.vm_id] = rebuilt_records.new_vm(domain, found, host, self.sight.now)
        self.lines.append(RebuiltRow(host, mark.vm, "a VM that the ledger does not have"))

    def _require_left(self, old: VmRecord, host: str) -> None:
        """A VM that moved is not on its old host any more."""
        if old.host != host and traces(old, self.sight.seen, self._held_by(old.id)):
            raise rebuilt_records.DomainNotRead(
                f"it moved here, and left traces on {old.host}: see drift"
            )

    def _require_name(self, name: str) -> None:
        if any(vm.name == name and name not in self.forget for vm in self.sight.view.vms):
            raise rebuilt_records.DomainNotRead(
                f"the ledger has another VM {name}: if it was deleted, add --forget {name}"
            )

    def _refuse(self, host: str, mark: Ownership, why: str) -> None:
        self._refused.add(mark.vm_id)
        self.lines.append(RebuiltRow(host, mark.vm, f"at generation {mark.generation}", why))

    # -- claims --------------------------------------------------------------------------------

    def _give_back(self) -> None:
        """Release allocations that a VM's newer mark does not name, and its host does not claim."""
        marks = {
            domain.ownership.vm_id: domain.ownership
            for facts in self.sight.seen.values()
            for domain in domains_of(facts, self.sight.known.fleet)
            if domain.ownership and domain.ownership.vm_id in self._changed
        }
        for id_, mark in marks.items():
            for each in self._held_by(id_):
                if each.id not in mark.allocations and not self._is_claimed(each):
                    self._given_back.append(each.id)
                    text = f"gave back {each.profile} at {each.device}"
                    self.lines.append(RebuiltRow(each.host, each.vm, text))

    def _is_claimed(self, held: Allocation) -> bool:
        """Or could be: a host that was not read may claim anything."""
        facts = self.sight.seen.get(held.host)
        if facts is None or unread(facts):
            return True
        return any(claim.allocation == held.id for claim in facts.claims)

    def _claim(self, host: str, claim: ClaimFacts) -> None:
        known = self.sight.known
        if is_layout(claim):
            ours = known.gpus.get(claim.allocation)
            if ours is not None and ours < claim.generation:
                self._gpus[claim.allocation] = claim.generation
                text = f"layout {claim.vm} of {claim.unit}: apply its file again after the thaw"
                self.lines.append(RebuiltRow(host, "", text))
            return
        if (
            is_of_nic(claim)
            or claim.unit.startswith(_FABRIC)
            or not ledger_is_behind(known.allocations.get(claim.allocation), claim.generation)
        ):
            return
        self._unit(host, claim)

    def _unit(self, host: str, claim: ClaimFacts) -> None:
        owner = self._owner(host, claim)
        gpus = [gpu for gpu in self.sight.view.gpus if gpu.host == host]
        held = [each for each in (*self._still_held(), *self._taken) if each.host == host]
        ground = HostAllocations(gpus, held, self.sight.now)
        try:
            made = rebuilt_allocation(claim, owner, ground, self._partition(host, claim.vm))
        except ClaimNotTaken as reason:
            self._refused.add(owner.id)
            self.lines.append(RebuiltRow(host, owner.name, f"{claim.unit} claimed", str(reason)))
        else:
            self._taken.append(made)
            self.lines.append(RebuiltRow(host, owner.name, f"{made.profile} at {made.device}"))

    def _owner(self, host: str, claim: ClaimFacts) -> VmRecord:
        """The VM whose mark names the allocation; without one, a name to delete it by."""
        facts = self.sight.seen[host]
        for domain in domains_of(facts, self.sight.known.fleet):
            mark = domain.ownership
            if mark and claim.allocation in mark.allocations:
                found = self._record(mark.vm_id)
                return found or rebuilt_records.vm_of_stray_claims(
                    mark.vm, mark.vm_id, host, self.sight.now
                )
        return self._left_over(host, claim)

    def _left_over(self, host: str, claim: ClaimFacts) -> VmRecord:
        name = f"{claim.vm[:50]}-{claim.allocation[:8]}"
        made = rebuilt_records.vm_of_stray_claims(name, self.sight.new_uuid(), host, self.sight.now)
        self._vms[made.id] = made
        text = f"a claim for {claim.vm} without its domain: delete {name} to give it back"
        self.lines.append(RebuiltRow(host, name, text))
        return made

    def _record(self, vm_id: str) -> VmRecord | None:
        ours = (vm for vm in self.sight.view.vms if vm.id == vm_id)
        return self._vms.get(vm_id) or self._changed.get(vm_id) or next(ours, None)

    def _partition(self, host: str, vm: str) -> int | None:
        """The NVSwitch partition that is claimed for a VM."""
        for claim in claims_of(self.sight.seen[host], self.sight.known.fleet):
            if claim.unit.startswith(_FABRIC) and claim.vm == vm:
                return int(claim.unit.removeprefix(_FABRIC))
        return None

    # -- what the ledger holds -----------------------------------------------------------------

    def _held_by(self, vm_id: str) -> tuple[Allocation, ...]:
        return tuple(each for each in self.sight.view.allocations if each.vm_id == vm_id)

    def _still_held(self) -> Iterator[Allocation]:
        gone = {vm.id for vm in self.sight.view.vms if vm.name in self.forget}
        for each in self.sight.view.allocations:
            if each.id not in self._given_back and each.vm_id not in gone:
                yield each


_FABRIC = formats.fabric_claim(0).removesuffix("0")
