"""A VM that gets a new seat on its host: other GPU parts and CPUs, more or larger disks; the same
VM, with its UUID and MACs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.planning.changed_fields import needs_restart
from vgpumgr.engine.planning.new_seats import is_reseated
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.gpu_partitioning import partition_steps
from vgpumgr.engine.reservation.nic_functions import check_nics, release_nics, take_nics
from vgpumgr.engine.reservation.vm_creation import (
    VmSites,
    allocate,
    device_steps,
    drop_filters,
    release_steps,
)
from vgpumgr.engine.reservation.vm_volumes import (
    VmSite,
    grown_disks,
    grown_volumes,
    more_volumes,
)
from vgpumgr.engine.steps.device_steps import VacateDevice
from vgpumgr.engine.steps.domain_steps import RedefineDomain
from vgpumgr.engine.steps.move_steps import (
    STOP_TIMEOUT_S,
    RedefineReseated,
    StartReseated,
    StopToMove,
)
from vgpumgr.engine.steps.snapshot_steps import MarkSwitched
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.storage.storage_drivers import create_volume, grow_running, grow_volume
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.apply_plan import ActionKind, Plan
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.operation import RESEAT, OperationRecord, TaskRecord
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import VmPlace, VmRecord, VmSpec, VmState

# Cold, but for disks that grow: libvirt migrates between hosts. The new devices are made first
# where there is room for both; the old ones go when the VM has the new ones for good.


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSeat:
    """A VM, the place that it gets on its host (None: its GPU parts and CPUs stay), and whether it
    ``runs`` now and is to again. ``spec`` is what it is to be there; None: what it is.
    ``releases_first``: what it has goes before what it takes is made.
    """

    vm: VmRecord
    placed: Placed | None
    runs: bool
    spec: VmSpec | None = None
    releases_first: bool = False

    @property
    def grows_running(self) -> bool:
        """Does it run, and is nothing to change that needs a stop?"""
        kept = self.placed is None and self.spec is not None
        return kept and self.runs and not needs_restart(self.vm.spec, self.spec or self.vm.spec)

    def more(self, site: VmSite) -> tuple[VolumePlan, ...]:
        """The volumes of its new disks."""
        return more_volumes(self.vm, self.spec, site) if self.spec else ()

    def there(self, site: VmSite) -> VmRecord:
        """The VM in its new seat."""
        vm, placed, disks = self.vm, self.placed, len(self.vm.spec.disks)
        added = tuple((each.pool, each.name) for each in self.more(site))
        return replace(
            vm,
            spec=self.spec or vm.spec,
            numa_node=placed.numa_node if placed else vm.numa_node,
            cpus=placed.cpus if placed else vm.cpus,
            nic_functions=placed.nic_functions if placed else vm.nic_functions,
            volumes=(*vm.volumes[:disks], *added, *vm.volumes[disks:]),
            generation=vm.generation + 1,
        )

    def moving(self, site: VmSite) -> VmRecord:
        """The VM while it gets it."""
        there = self.there(site)
        to = VmPlace(
            host=there.host,
            numa_node=there.numa_node,
            cpus=there.cpus,
            nic_functions=there.nic_functions,
            spec=self.spec,
            volumes=there.volumes if there.volumes != self.vm.volumes else None,
            parts_stay=self.placed is None,
        )
        return replace(self.vm, state=VmState.MIGRATING, moving_to=to)


def seat_allocations(
    wanted: NewSeat, sites: VmSites, opening: OperationOpening
) -> tuple[Allocation, ...]:
    """What the VM takes in addition to what it holds."""
    placed, site = wanted.placed, sites.site(wanted.vm.host)
    parts = placed.assignments if placed else ()
    return tuple(allocate(part, placed, wanted.vm.id, site, opening) for part in parts if placed)


def seat_steps(wanted: NewSeat, new: tuple[Allocation, ...], sites: VmSites) -> Iterator[Step]:
    """Its new volumes, then off, its new devices made, defined with all that, started, and what it
    had released: before they are made where they need its place. Where nothing but disks grows, it
    runs on.
    """
    if wanted.grows_running:
        yield from _growth(wanted, sites)
        return
    vm, site, old = wanted.vm, sites.site(wanted.vm.host), sites.allocations(wanted.vm)
    there = wanted.there(site)
    for plan in wanted.more(site):
        yield create_volume(plan, site.facts)
    if wanted.runs:
        yield StopToMove(name=vm.name, vm_id=vm.id, timeout_s=STOP_TIMEOUT_S)
    for pool, name, size in grown_volumes(vm, there.spec):
        yield grow_volume((pool, name), size, site.facts)
    if wanted.releases_first:
        yield from (VacateDevice(allocation=each) for each in old)
    yield from device_steps(new, site.modules)
    yield from take_nics(there, vm)
    before, after = site.autostarts(vm.spec), site.autostarts(there.spec)
    redefine = RedefineDomain if wanted.runs else RedefineReseated
    yield redefine(
        name=vm.name,
        vm_id=vm.id,
        xml=domain_xml(there, new if wanted.placed else old, site),
        old_xml=sites.definition(vm),
        autostart=after,
        old_autostart=None if before == after else before,
    )
    if wanted.runs:
        yield StartReseated(name=vm.name, vm_id=vm.id)
        yield from check_nics(there)
    if wanted.placed and not wanted.releases_first:
        yield from release_steps(old)
    yield from release_nics(vm, there.nic_functions)
    yield from drop_filters(vm.spec, there.spec)


def _growth(wanted: NewSeat, sites: VmSites) -> Iterator[Step]:
    """Its disks grow under its guest; definition and mark say of which generation it is."""
    vm, site = wanted.vm, sites.site(wanted.vm.host)
    there = wanted.there(site)
    for disk, volume, size in grown_disks(vm, there.spec):
        yield from grow_running(vm, disk, volume, size, site.facts)
    autostart = site.autostarts(vm.spec)
    yield RedefineReseated(
        name=vm.name,
        vm_id=vm.id,
        xml=sites.definition(there),
        old_xml=sites.definition(vm),
        autostart=site.autostarts(there.spec),
        old_autostart=autostart,
    )
    yield MarkSwitched(vm.name, vm.id, sites.mark(there))


@dataclass(frozen=True, slots=True)
class SeatTask:
    """The task of a VM that gets a new seat, what it takes, and the VM meanwhile and after it."""

    task: TaskRecord
    allocations: tuple[Allocation, ...]
    moving: VmRecord
    there: VmRecord


def seat_tasks(
    plan: Plan,
    sites: VmSites,
    view: LedgerView,
    opening: OperationOpening,
    operation: OperationRecord,
) -> Iterator[SeatTask]:
    """The new seats of a plan. What is to run is asked to stop, and started."""
    running = observed_domains(view).running
    for action in plan.actions:
        vm = action.record
        if vm is None or action.kind is not ActionKind.CHANGE or not is_reseated(action):
            continue
        runs = vm.running or (vm.host, vm.name) in running
        seat = NewSeat(
            vm=vm,
            placed=action.placed,
            runs=runs,
            spec=action.vm,
            releases_first=action.releases_first,
        )
        new, site = seat_allocations(seat, sites, opening), sites.site(vm.host)
        first = partition_steps(seat.placed, view) if seat.placed else ()
        work = (*first, *seat_steps(seat, new, sites))
        task = opening.task(operation, RESEAT, work, vm_id=vm.id, vm=vm.name, host=vm.host)
        yield SeatTask(task, new, seat.moving(site), seat.there(site))
