"""A yes from placement → the VM's record, its allocations, and the steps that make it. Pure
but for the ids, which come from the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from vgpumgr import domainxml, gpu
from vgpumgr.engine.lifecycle import device_steps
from vgpumgr.engine.steps import (
    CreateSeed,
    CreateVolume,
    DefineDomain,
    StartDomain,
    Step,
)
from vgpumgr.model.domain import (
    DomainDisk,
    DomainNic,
    DomainPlan,
    Hostdev,
    Ownership,
    VolumePlan,
)
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.vm import (
    Allocation,
    DiskMode,
    DiskSpec,
    InstancePart,
    NumaPolicy,
    VmRecord,
    VmSpec,
    VmState,
)

SEED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Creation:
    """Everything that one new VM writes to the ledger and does on its host."""

    vm: VmRecord
    allocations: tuple[Allocation, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """Where VMs are made: the host, its last probe, its GPUs, and the fleet's id."""

    fleet: str
    host: HostRecord
    facts: HostFacts
    gpus: dict[str, GpuRecord]


def create(placed: Placed, site: Site, new_uuid: Callable[[], str], now: float) -> Creation:
    """The creation of one placed VM."""
    spec = placed.request
    vm_id = new_uuid()
    allocations = tuple(
        _allocation(part, placed, vm_id, site, new_uuid(), now) for part in placed.assignments
    )
    volumes = tuple(_volume(spec, vm_id, number, site) for number in range(len(spec.disks)))
    seed = _seed_volume(spec, vm_id)
    vm = VmRecord(
        id=vm_id,
        spec=spec,
        host=site.host.name,
        state=VmState.RESERVED,
        running=True,
        generation=1,
        numa_node=placed.numa_node,
        cpus=placed.cpus,
        volumes=tuple((each.pool, each.name) for each in (*volumes, *seed)),
        created_at=now,
    )
    return Creation(vm, allocations, _steps(vm, allocations, volumes, seed, site))


def _steps(
    vm: VmRecord,
    allocations: tuple[Allocation, ...],
    volumes: tuple[VolumePlan, ...],
    seed: tuple[VolumePlan, ...],
    site: Site,
) -> tuple[Step, ...]:
    spec = vm.spec
    seeds = tuple(
        CreateSeed(plan=plan, instance_id=vm.id, hostname=spec.name, cloud_init=spec.cloud_init)
        for plan in seed
        if spec.cloud_init
    )
    xml = domain_xml(vm, allocations, site)
    return (
        *device_steps(allocations, {each.id: each.facts.module_id for each in site.gpus.values()}),
        *(CreateVolume(plan=plan) for plan in volumes),
        *seeds,
        DefineDomain(name=spec.name, vm_id=vm.id, xml=xml, autostart=spec.autostart),
        StartDomain(name=spec.name, vm_id=vm.id),
    )


def domain_xml(vm: VmRecord, allocations: tuple[Allocation, ...], site: Site) -> str:
    """The domain XML of a VM on its host, gated by the host's versions."""
    spec = vm.spec
    numa_bound = bool(vm.cpus) or spec.hugepage_kib is not None or spec.numa is NumaPolicy.REQUIRE
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
        graphics=spec.display,
        cpus=vm.cpus,
        numa_node=vm.numa_node if numa_bound else None,
        hugepage_kib=spec.hugepage_kib,
        mmio64_mib=_mmio64_mib(allocations, site),
        ownership=Ownership(
            fleet=site.fleet,
            vm=spec.name,
            vm_id=vm.id,
            generation=vm.generation,
            allocations=tuple(allocation.id for allocation in allocations),
        ),
        labels=spec.labels,
    )
    return domainxml.render(plan, site.facts.versions)


def mac_address(vm_id: str, number: int) -> str:
    """A stable MAC in QEMU's range (52:54:00) for a VM's n-th NIC."""
    digest = sha256(f"{vm_id}/{number}".encode()).hexdigest()
    return f"52:54:00:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}"


def _allocation(
    part: Assignment, placed: Placed, vm_id: str, site: Site, new_id: str, now: float
) -> Allocation:
    facts = site.gpus[part.gpu].facts
    offer = part.offer
    function = part.vf.address if part.vf else facts.device
    is_mdev = offer.framework is Framework.MDEV
    whole = offer.framework is Framework.PASSTHROUGH
    return Allocation(
        id=new_id,
        vm_id=vm_id,
        vm=placed.request.name,
        host=site.host.name,
        gpu=part.gpu,
        profile=offer.profile,
        framework=offer.framework,
        device=new_id if is_mdev else function,
        slots=part.slots,
        type_id=offer.type_id,
        parent=function if is_mdev else "",
        companions=gpu.companions(facts)[0] if whole else (),
        vf=part.vf.number if part.vf else None,
        instance=_instance(part, facts),
        placement_id=part.start if offer.starts and offer.instance is None else None,
        frame_rate_limiter=part.frame_rate_limiter,
        partition=placed.partition if whole else None,
        created_at=now,
    )


def _instance(part: Assignment, facts: GpuFacts) -> InstancePart | None:
    offer = part.offer.instance
    if offer is None or part.start is None:
        return None
    return InstancePart(
        gpu=facts.device,
        profile=offer.profile,
        profile_id=offer.profile_id,
        start=part.start,
        size=offer.size,
        make=part.make_instance,
    )


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


def volume_name(name: str, vm_id: str, number: int, extension: str) -> str:
    """A volume's name carries the VM's id, so that it can only be ours."""
    return f"{name}-{vm_id[:8]}-{number}.{extension}"


def _volume(spec: VmSpec, vm_id: str, number: int, site: Site) -> VolumePlan:
    disk = spec.disks[number]
    name = volume_name(spec.name, vm_id, number, disk.format)
    image_path = _path(site.facts, disk.pool, disk.image) if disk.image else None
    return VolumePlan(
        pool=disk.pool,
        name=name,
        capacity_bytes=disk.size_bytes,
        format=disk.format,
        mode=disk.mode,
        source=disk.image,
        source_path=image_path if disk.mode is DiskMode.OVERLAY else None,
        source_format=disk.image_format if disk.image else None,
    )


def _seed_volume(spec: VmSpec, vm_id: str) -> tuple[VolumePlan, ...]:
    if spec.cloud_init is None:
        return ()
    name = volume_name(spec.name, vm_id, len(spec.disks), "iso")
    pool = spec.cloud_init.pool
    return (VolumePlan(pool=pool, name=name, capacity_bytes=SEED_BYTES, format="raw"),)


def _disks(vm: VmRecord, facts: HostFacts) -> tuple[DomainDisk, ...]:
    formats: list[DiskSpec | None] = [*vm.spec.disks, *([None] if vm.spec.cloud_init else [])]
    return tuple(
        DomainDisk(
            path=_path(facts, pool, name),
            format=disk.format if disk else "raw",
            target=f"vd{chr(ord('a') + number)}" if disk else "sda",
            cdrom=disk is None,
        )
        for number, ((pool, name), disk) in enumerate(zip(vm.volumes, formats, strict=True))
    )


def _path(facts: HostFacts, pool: str, name: str) -> str:
    target = next((each.path for each in facts.pools if each.name == pool), None)
    if target is None:
        raise NotFound(
            f"host {facts.host} shows no storage pool {pool}",
            why=f"it has: {', '.join(each.name for each in facts.pools) or 'none'}",
            next=f"vgpumgr host probe {facts.host}",
        )
    return f"{target.rstrip('/')}/{name}"
