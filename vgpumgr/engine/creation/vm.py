"""A placed VM → its record, its allocations, and the steps that make it."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.creation.allocations import allocate
from vgpumgr.engine.creation.domain import domain_xml
from vgpumgr.engine.creation.site import Site
from vgpumgr.engine.creation.volumes import seed_volumes, volume_plan
from vgpumgr.engine.reserving.lifecycle import device_steps
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import (
    CreateSeed,
    CreateVolume,
    DefineDomain,
    StartDomain,
    Step,
)
from vgpumgr.engine.steps.seed import filled
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import (
    Allocation,
    VmRecord,
    VmState,
)


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
