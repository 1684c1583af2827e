"""A placed VM becomes its record, its allocations, and the steps that create it."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import gpu
from vgpumgr.engine.operations.new_operation import Opening
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.vm_steps import device_steps
from vgpumgr.engine.reservation.vm_volumes import Site, seed_volumes, volume_plan
from vgpumgr.engine.steps import CreateSeed, CreateVolume, DefineDomain, StartDomain, Step
from vgpumgr.engine.steps.volume_steps import filled
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.vm import Allocation, InstancePart, VmRecord, VmState


def allocate(
    part: Assignment, placed: Placed, vm_id: str, site: Site, opening: Opening
) -> Allocation:
    """What one assignment takes, under an id of its own."""
    new_id = opening.new_uuid()
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
        instance=_instance(part, site),
        placement_id=part.start if offer.starts and offer.instance is None else None,
        frame_rate_limiter=part.frame_rate_limiter,
        partition=placed.partition if whole else None,
        memory_mib=offer.memory_mib,
        created_at=opening.now,
    )


def _instance(part: Assignment, site: Site) -> InstancePart | None:
    offer, facts = part.offer.instance, site.gpus[part.gpu].facts
    if offer is None or part.start is None:
        return None
    return InstancePart(
        gpu=facts.device,
        profile=offer.profile,
        profile_id=offer.profile_id,
        start=part.start,
        size=offer.size,
        make=part.make_instance or not _is_of_layout(part, site),
    )


def _is_of_layout(part: Assignment, site: Site) -> bool:
    """Is it there, and for no VM? One that VMs share any of them may have to make again."""
    facts = site.gpus[part.gpu].facts
    there = {each.start for each in (facts.mig.instances if facts.mig else None) or ()}
    return part.start in there and part.start not in site.made.get(part.gpu, ())


@dataclass(frozen=True, slots=True)
class Creation:
    """Everything that one new VM writes to the ledger and does on its host."""

    vm: VmRecord
    allocations: tuple[Allocation, ...]
    steps: tuple[Step, ...]


def create(placed: Placed, site: Site, opening: Opening) -> Creation:
    """The creation of one placed VM."""
    spec = placed.request
    vm_id = opening.new_uuid()
    allocations = tuple(allocate(part, placed, vm_id, site, opening) for part in placed.assignments)
    volumes = tuple(volume_plan(spec, vm_id, number, site) for number in range(len(spec.disks)))
    seed = seed_volumes(spec, vm_id)
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
        created_at=opening.now,
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
        CreateSeed(
            plan=plan,
            instance_id=vm.id,
            hostname=spec.name,
            cloud_init=text.withheld(),
        )
        for plan in seed
        if (text := filled(vm)) is not None
    )
    xml = domain_xml(vm, allocations, site)
    return (
        *device_steps(allocations, site.modules),
        *(CreateVolume(plan=plan) for plan in volumes),
        *seeds,
        DefineDomain(name=spec.name, vm_id=vm.id, xml=xml, autostart=site.autostarts(spec)),
        StartDomain(name=spec.name, vm_id=vm.id),
    )
