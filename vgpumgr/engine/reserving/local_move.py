"""VMs that get other GPUs of their own host: the reservation. Pure but for the ids, which come from
the caller.

A move within a host is always cold: libvirt migrates between hosts alone. Disks, UUID and MACs
stay. The new devices are made beside the old ones, which go when the VM has the new ones for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from vgpumgr.engine.creation import Site, allocate, domain_xml
from vgpumgr.engine.creation.sites import Sites
from vgpumgr.engine.reserving.lifecycle import device_steps, release_steps
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import (
    STOP_TIMEOUT_S,
    RedefineDomain,
    RedefineReseated,
    StartReseated,
    Step,
    StopToMove,
)
from vgpumgr.engine.supply import build_fleet
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.journal import RESEAT, Reservation
from vgpumgr.model.placement import Fleet, Placed
from vgpumgr.model.vm import Allocation, VmPlace, VmRecord, VmState

EMPTIED = "it is being drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reseat:
    """A VM, the place that it gets on its host, and whether it ``runs`` now and is to again."""

    vm: VmRecord
    placed: Placed
    runs: bool


def fleet_beside(view: LedgerView, vm: VmRecord) -> Fleet:
    """The supply if the VM were off: its vCPUs and memory are free, its GPU parts are not."""
    off = replace(vm, state=VmState.SHELVED)
    return build_fleet(
        replace(view, vms=tuple(off if each.id == vm.id else each for each in view.vms))
    )


def closed(fleet: Fleet, gpus: Collection[str]) -> Fleet:
    """The supply without these GPUs (our ids), which are being emptied."""
    if not gpus:
        return fleet
    hosts = (
        replace(
            host,
            gpus=tuple(
                replace(gpu, blocked=gpu.blocked or EMPTIED) if gpu.id in gpus else gpu
                for gpu in host.gpus
            ),
        )
        for host in fleet.hosts
    )
    return Fleet(hosts=tuple(hosts))


def reseating(wanted: Reseat, view: LedgerView, opening: Opening) -> Reservation:
    """The VM marked as moving, what it takes beside what it holds, and one task."""
    vm, placed, sites = wanted.vm, wanted.placed, Sites(view)
    site = sites.site(vm.host)
    new = tuple(allocate(part, placed, vm.id, site, opening) for part in placed.assignments)
    there = replace(vm, numa_node=placed.numa_node, cpus=placed.cpus, generation=vm.generation + 1)
    work = tuple(_steps(wanted, there, new, sites, site))
    going = VmPlace(host=vm.host, numa_node=placed.numa_node, cpus=placed.cpus)
    operation, taken = opening.operation("vm move"), {each.gpu for each in new}
    return Reservation(
        operation=operation,
        tasks=(opening.task(operation, RESEAT, work, vm_id=vm.id, vm=vm.name, host=vm.host),),
        changed_vms=(replace(vm, state=VmState.MIGRATING, moving_to=going),),
        allocations=new,
        gpu_generations={each.id: each.generation for each in view.gpus if each.id in taken},
        host_generations={
            each.name: each.generation for each in view.hosts if each.name == vm.host
        },
    )


def _steps(
    wanted: Reseat, there: VmRecord, new: tuple[Allocation, ...], sites: Sites, site: Site
) -> Iterator[Step]:
    vm, runs = wanted.vm, wanted.runs
    if runs:
        yield StopToMove(name=vm.name, vm_id=vm.id, timeout_s=STOP_TIMEOUT_S)
    yield from device_steps(new, site.modules)
    redefine = RedefineDomain if runs else RedefineReseated
    yield redefine(
        name=vm.name,
        vm_id=vm.id,
        xml=domain_xml(there, new, site),
        old_xml=sites.definition(vm),
        autostart=site.autostarts(vm.spec),
    )
    if runs:
        yield StartReseated(name=vm.name, vm_id=vm.id)
    yield from release_steps(sites.allocations(vm))
