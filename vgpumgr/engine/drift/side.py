"""One host as the ledger has it, beside what was seen of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr.engine.creation.sites import Sites
from vgpumgr.engine.drift.seen import Seen
from vgpumgr.engine.drift.work import Work
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import Allocation, VmRecord, VmState


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """``vms`` are those to compare, ``held`` all that the ledger has on the host.

    ``gpus`` by our id, ``ours`` the fleet's VMs by id, ``declared`` GPUs that have a layout.
    """

    fleet: str
    seen: Seen
    vms: tuple[VmRecord, ...]
    held: tuple[Allocation, ...]
    gpus: Mapping[str, GpuRecord]
    ours: Mapping[str, VmRecord]
    declared: frozenset[str]
    work: Work
    sites: Sites

    @property
    def host(self) -> str:
        """The host's name."""
        return self.seen.facts.host

    @property
    def facts(self) -> HostFacts:
        """What its probe read."""
        return self.seen.facts

    def unread(self, *parts: str) -> bool:
        """Could one of these parts of the probe not be read?"""
        return any(unknown.part in parts for unknown in self.facts.unknown)

    def device_of(self, allocation: Allocation) -> str:
        """The name on the host of the GPU that an allocation is on."""
        record = self.gpus.get(allocation.gpu)
        return record.facts.device if record else ""

    def gpu_of(self, allocation: Allocation) -> GpuFacts | None:
        """The GPU that an allocation is on, as the probe saw it; None where it did not."""
        device = self.device_of(allocation)
        return next((gpu for gpu in self.facts.gpus if gpu.device == device), None)

    def is_ours(self, domain: DomainFacts) -> bool:
        """Does a domain carry the mark of one of our VMs?"""
        mark = domain.ownership
        return mark is not None and mark.fleet == self.fleet and mark.vm_id in self.ours

    def to_compare(self) -> tuple[tuple[VmRecord, Allocation], ...]:
        """What the VMs to compare hold here."""
        vms = {vm.id: vm for vm in self.vms}
        return tuple((vms[each.vm_id], each) for each in self.held if each.vm_id in vms)


def sides(view: LedgerView, seen: Mapping[str, Seen], work: Work) -> tuple[Side, ...]:
    """A side for every host that was seen."""
    locations, gpus = Sites(view), {gpu.id: gpu for gpu in view.gpus}
    ours = {vm.id: vm for vm in view.vms}
    touched = work.touched
    vms: dict[str, list[VmRecord]] = {}
    held: dict[str, list[Allocation]] = {}
    for vm in view.vms:
        if vm.state is VmState.ACTIVE and vm.id not in touched:
            vms.setdefault(vm.host, []).append(vm)
    for allocation in view.allocations:
        held.setdefault(allocation.host, []).append(allocation)
    return tuple(
        Side(
            fleet=view.fleet,
            seen=found,
            vms=tuple(vms.get(host, ())),
            held=tuple(held.get(host, ())),
            gpus=gpus,
            ours=ours,
            declared=frozenset(record.gpu for record in view.layouts),
            work=work,
            sites=locations,
        )
        for host, found in seen.items()
    )
