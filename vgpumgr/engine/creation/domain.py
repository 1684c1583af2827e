"""A VM and what it holds → its domain XML."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from vgpumgr import domainxml, gpu
from vgpumgr.engine.creation.adopted import adopted_xml
from vgpumgr.engine.creation.seat import numa_seat
from vgpumgr.engine.creation.site import Site, volume_path
from vgpumgr.engine.creation.volumes import attached
from vgpumgr.model.domain import (
    DomainDisk,
    DomainNic,
    DomainPlan,
    Hostdev,
    Ownership,
)
from vgpumgr.model.gpu import Framework
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import (
    Allocation,
    VmRecord,
    VmSpec,
)


def domain_xml(vm: VmRecord, allocations: tuple[Allocation, ...], site: Site) -> str:
    """The domain XML of a VM on its host, gated by the host's versions.

    Conflict for an adopted VM that cannot be defined as its record says.
    """
    spec, mark = vm.spec, ownership(vm, allocations, site.fleet)
    if vm.definition:
        held = [device for each in allocations for device in (each.device, *each.companions)]
        return adopted_xml(vm, mark, held)
    plan = DomainPlan(
        name=spec.name,
        uuid=vm.id,
        vcpus=spec.vcpus,
        memory_mib=spec.memory_mib,
        accelerator=_accelerator(site),
        firmware=spec.firmware,
        disks=_disks(vm, site.facts),
        nics=tuple(
            DomainNic(mac=mac_address(vm.id, number), network=nic.network, bridge=nic.bridge)
            for number, nic in enumerate(spec.nics)
        ),
        hostdevs=_hostdevs(spec, allocations),
        graphics=spec.display or spec.console,
        agent=spec.agent,
        cpus=vm.cpus,
        seat=numa_seat(vm, allocations, site),
        hugepage_kib=spec.hugepage_kib,
        mmio64_mib=_mmio64_mib(allocations, site),
        ownership=mark,
        labels=spec.labels,
    )
    return domainxml.render(plan, site.facts.versions)


def ownership(vm: VmRecord, allocations: Iterable[Allocation], fleet: str) -> Ownership:
    """The mark that its domain carries."""
    return Ownership(
        fleet=fleet,
        vm=vm.name,
        vm_id=vm.id,
        generation=vm.generation,
        allocations=tuple(allocation.id for allocation in allocations),
    )


def mac_address(vm_id: str, number: int) -> str:
    """A stable MAC in QEMU's range (52:54:00) for a VM's n-th NIC."""
    digest = sha256(f"{vm_id}/{number}".encode()).hexdigest()
    return f"52:54:00:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}"


def _accelerator(site: Site) -> str:
    if site.host.accelerator == "auto":
        return "kvm" if site.facts.kvm else "tcg"
    return site.host.accelerator


def _hostdevs(spec: VmSpec, allocations: tuple[Allocation, ...]) -> tuple[Hostdev, ...]:
    """The devices in order; display goes on the first vGPU only."""
    vgpus = {Framework.MDEV, Framework.VFIO_VF}
    first_vgpu = next((a.id for a in allocations if a.framework in vgpus), None)
    return tuple(
        hostdev
        for each in allocations
        for hostdev in gpu.framework(each.framework).describe(
            each, display=spec.display and each.id == first_vgpu
        )
    )


def _mmio64_mib(allocations: tuple[Allocation, ...], site: Site) -> int:
    """The sum of the PCI windows that the whole GPUs of a VM need."""
    whole = [a for a in allocations if a.framework == Framework.PASSTHROUGH]
    offers = [offer for a in whole for offer in gpu.offers(site.gpus[a.gpu].facts)]
    return sum(offer.mmio64_mib for offer in offers if offer.framework is Framework.PASSTHROUGH)


def _disks(vm: VmRecord, facts: HostFacts) -> tuple[DomainDisk, ...]:
    return tuple(
        DomainDisk(
            path=volume_path(facts, each.pool, each.name),
            format=each.format,
            target=each.guest_name,
            cdrom=each.disk is None,
        )
        for each in attached(vm)
    )
