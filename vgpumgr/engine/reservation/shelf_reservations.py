"""Reservations of `shelve` and `unshelve`: VMs that keep their identity while they release their
allocations.

A shelved VM stays defined on its host, without its devices, so that its NVRAM is kept and
it is not started on devices that another VM holds by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.planning.automatic_layouts import with_layouts_of
from vgpumgr.engine.planning.new_seats import seat_request
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.gpu_partitioning import layout_records, partition_steps
from vgpumgr.engine.reservation.nic_functions import release_nics
from vgpumgr.engine.reservation.vm_creation import VmSites, allocate, release_steps, start_steps
from vgpumgr.engine.steps.domain_steps import RedefineDomain, StartDomain, StopDomain
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import (
    SHELVE,
    UNSHELVE,
    OperationRecord,
    Reservation,
    TaskRecord,
)
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueEntry, QueueMoved
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


@dataclass(frozen=True, slots=True, kw_only=True)
class StopManner:
    """How a guest is stopped; ``at_last``: asked, and off by force when its time is over."""

    force: bool = False
    timeout_s: float = 60.0
    at_last: bool = False


def unshelve_request(vm: VmRecord) -> VmSpec:
    """A shelved VM's request to placement: capacity on the host where its disks are."""
    return seat_request(vm, vm.spec)


def shelve_reservation(
    vms: Iterable[VmRecord],
    view: LedgerView,
    opening: OperationOpening,
    stop: StopManner,
    *,
    kind: str,
    moves: Sequence[QueueMoved] = (),
) -> Reservation:
    """VMs are stopped, defined without their devices, and release these. Conflict for an adopted
    VM, whose definition is not the fleet's to write.
    """
    operation, sites = opening.operation(kind), VmSites(view)
    leaving = list(vms)
    for vm in leaving:
        _refuse_adopted(vm)
    return Reservation(
        operation=operation,
        tasks=tuple(
            _task(opening, operation, SHELVE, vm, _shelve_steps(vm, sites, stop)) for vm in leaving
        ),
        changed_vms=tuple(leaving),
        queue=tuple(moves),
    )


def unshelve_reservation(
    placed: Mapping[str, Placed],
    view: LedgerView,
    opening: OperationOpening,
    *,
    kind: str,
    queued: Sequence[QueueEntry] = (),
    moves: Sequence[QueueMoved] = (),
) -> Reservation:
    """Shelved VMs (by id) take what was placed for them, are defined with it, and started."""
    operation, sites = opening.operation(kind), VmSites(with_layouts_of(view, placed.values()))
    shelved = [vm for vm in view.vms if vm.id in placed]
    tasks: list[TaskRecord] = []
    coming: list[VmRecord] = []
    taken: list[Allocation] = []
    for vm in shelved:
        place = placed[vm.id]
        back = replace(
            vm,
            state=VmState.RESERVED,
            numa_node=place.numa_node,
            cpus=place.cpus,
            nic_functions=place.nic_functions,
        )
        site = sites.site(vm.host)
        parts = tuple(allocate(part, place, vm.id, site, opening) for part in place.assignments)
        steps = (*partition_steps(place, view), *_come_back(vm, back, parts, sites))
        tasks.append(_task(opening, operation, UNSHELVE, vm, steps))
        coming.append(back)
        taken += parts
    gpus, hosts = {each.gpu for each in taken}, {vm.host for vm in shelved}
    return Reservation(
        operation=operation,
        tasks=tuple(tasks),
        changed_vms=tuple(coming),
        allocations=tuple(taken),
        layouts=layout_records(placed.values(), view, operation.id),
        gpu_generations={gpu.id: gpu.generation for gpu in view.gpus if gpu.id in gpus},
        host_generations=view.generations(hosts),
        queued=tuple(queued),
        queue=tuple(moves),
    )


def _shelve_steps(vm: VmRecord, sites: VmSites, stop: StopManner) -> tuple[Step, ...]:
    bare = domain_xml(replace(vm, nic_functions=()), (), sites.site(vm.host))
    return (
        StopDomain(
            name=vm.name,
            vm_id=vm.id,
            force=stop.force,
            timeout_s=stop.timeout_s,
            at_last=stop.at_last,
        ),
        RedefineDomain(name=vm.name, vm_id=vm.id, xml=bare, old_xml=sites.definition(vm)),
        *release_steps(sites.allocations(vm)),
        *release_nics(vm),
    )


def _come_back(
    shelved: VmRecord, back: VmRecord, parts: tuple[Allocation, ...], sites: VmSites
) -> tuple[Step, ...]:
    site = sites.site(back.host)
    steps = start_steps(back, parts, site.modules)
    power = next(n for n, each in enumerate(steps) if isinstance(each, StartDomain))
    define = RedefineDomain(
        name=back.name,
        vm_id=back.id,
        xml=domain_xml(back, parts, site),
        old_xml=domain_xml(shelved, (), site),
        autostart=site.autostarts(back.spec),
        old_autostart=False,
    )
    return (*steps[:power], define, *steps[power:])


def _refuse_adopted(vm: VmRecord) -> None:
    if vm.definition:
        raise Conflict(
            f"{vm.name} cannot release its GPU parts and be kept",
            why="it was adopted: its definition names its devices",
            next=f"vgpumgr vm stop {vm.name}, or vgpumgr vm delete {vm.name} --keep-disks",
        )


def _task(
    opening: OperationOpening,
    operation: OperationRecord,
    verb: str,
    vm: VmRecord,
    work: Sequence[Step],
) -> TaskRecord:
    return opening.task(operation, verb, work, vm_id=vm.id, vm=vm.name, host=vm.host)
