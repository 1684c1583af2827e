"""The transaction of a move: everything written before its first effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr import domainxml
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration.move_plan import DiskMove, MovePlan
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.autostart import autostarts
from vgpumgr.engine.reservation.domain_plan import domain_xml, numa_seat, ownership
from vgpumgr.engine.reservation.nic_functions import check_nics, release_nics, take_nics
from vgpumgr.engine.reservation.vm_creation import (
    VmSites,
    allocate,
    device_steps,
    drop_filters,
    release_steps,
)
from vgpumgr.engine.reservation.vm_volumes import VmSite
from vgpumgr.engine.steps.domain_steps import DefineDomain
from vgpumgr.engine.steps.live_migration_steps import MoveDomain
from vgpumgr.engine.steps.move_steps import (
    STOP_TIMEOUT_S,
    ClearAutostart,
    ConfirmMoved,
    Depart,
    DepartOff,
    StartMoved,
    StopToMove,
)
from vgpumgr.engine.steps.step import Step, TwoHostStep
from vgpumgr.engine.steps.tpm_steps import CarryTpm
from vgpumgr.engine.steps.volume_steps import CarryVolume, CreateVolume, DeleteVolume
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import VmPlace, VmRecord, VmState


@dataclass(frozen=True, slots=True)
class _Move:
    """A VM as it will be at its new site, with what it holds here and there."""

    plan: MovePlan
    vm: VmRecord
    old: tuple[Allocation, ...]
    new: tuple[Allocation, ...]
    site: VmSite

    @property
    def carried(self) -> tuple[DiskMove, ...]:
        """Disks that no shared pool keeps."""
        return tuple(disk for disk in self.plan.disks if not disk.shared)


def reservation(plan: MovePlan, view: LedgerView, opening: OperationOpening) -> Reservation:
    """The VM marked as moving, what it takes on the target, and one task with all steps."""
    move = _move(plan, view, opening)
    operation = opening.operation("vm migrate")
    going = VmPlace(
        host=plan.target.name,
        numa_node=move.vm.numa_node,
        cpus=move.vm.cpus,
        nic_functions=move.vm.nic_functions,
    )
    taken = {each.gpu for each in move.new}
    return Reservation(
        operation=operation,
        tasks=(opening.migration(operation, tuple(_work(move)), plan.vm, plan.target.name),),
        changed_vms=(replace(plan.vm, state=VmState.MIGRATING, moving_to=going),),
        allocations=move.new,
        gpu_generations={each.id: each.generation for each in view.gpus if each.id in taken},
        host_generations=_generations(plan),
    )


def _generations(plan: MovePlan) -> dict[str, int]:
    """The target's; and the source's where snapshots are there that a clone may be planned over."""
    hosts = (plan.target, *([plan.source] if plan.vm.snapshots else []))
    return {each.name: each.generation for each in hosts}


def _move(plan: MovePlan, view: LedgerView, opening: OperationOpening) -> _Move:
    placed, sites = plan.placed, VmSites(view)
    assert placed is not None, "a plan that was refused is not carried out"
    site = sites.site(plan.target.name)
    new = tuple(allocate(part, placed, plan.vm.id, site, opening) for part in placed.assignments)
    vm = replace(
        plan.vm,
        host=plan.target.name,
        numa_node=placed.numa_node,
        cpus=placed.cpus,
        nic_functions=placed.nic_functions,
        generation=plan.vm.generation + 1,
    )
    return _Move(plan, vm, sites.allocations(plan.vm), new, site)


def _work(move: _Move) -> Iterator[tuple[str, Step | TwoHostStep]]:
    """Every step with the host where it acts; steps between two hosts belong to the task."""
    plan, vm = move.plan, move.vm
    here, there = plan.source.name, plan.target.name
    if autostarts(vm.spec, plan.source):
        yield here, ClearAutostart(name=vm.name, vm_id=vm.id)
    if plan.runs and not plan.live:
        timeout_s = STOP_TIMEOUT_S if plan.timeout_s is None else plan.timeout_s
        yield here, StopToMove(name=vm.name, vm_id=vm.id, timeout_s=timeout_s)
    for step in (*device_steps(move.new, move.site.modules), *take_nics(vm)):
        yield there, step
    for disk in move.carried:
        yield _volume(disk, there, live=plan.live)
    for between in _over(move):
        yield there, between
    for disk in move.carried:
        yield here, DeleteVolume(pool=disk.pool, name=disk.name)
    for step in (*release_steps(move.old), *release_nics(plan.vm), *drop_filters(vm.spec)):
        yield here, step


def _over(move: _Move) -> Iterator[Step | TwoHostStep]:
    """From the first moment on which it may run there, to the last of what is here."""
    plan, vm, xml = move.plan, move.vm, _definition(move)
    confirm = ConfirmMoved(
        name=vm.name,
        vm_id=vm.id,
        xml=xml,
        old_xml=xml,
        autostart=move.site.autostarts(vm.spec),
        devices=(*_devices(move.new), *vm.nic_functions),
    )
    if plan.live:
        yield _live(move, xml)
    else:
        if vm.spec.tpm:
            yield CarryTpm(name=vm.name, uuid=vm.domain_uuid)
        yield DefineDomain(name=vm.name, vm_id=vm.id, xml=xml)
    if plan.runs:
        if not plan.live:
            yield StartMoved(name=vm.name, vm_id=vm.id)
        yield from check_nics(vm)
        yield confirm
        yield Depart(name=vm.name, vm_id=vm.id)
    else:
        yield DepartOff(name=vm.name, vm_id=vm.id)
        yield confirm


def _definition(move: _Move) -> str:
    """The definition on the target: a running guest keeps the definition that it was started with,
    a guest that is off gets a new one.
    """
    if move.plan.live:
        return domainxml.moved(move.plan.xml, **_seat(move))
    return domain_xml(move.vm, move.new, move.site)


def _volume(disk: DiskMove, there: str, *, live: bool) -> tuple[str, Step | TwoHostStep]:
    """QEMU copies the disks of a running guest itself, but for what is read-only."""
    assert disk.plan is not None
    if live and not disk.cdrom:
        return there, CreateVolume(plan=disk.plan)
    return there, CarryVolume(plan=disk.plan, path=disk.path, target_path=disk.target_path)


def _live(move: _Move, xml: str) -> MoveDomain:
    plan, vm = move.plan, move.vm
    assert plan.target.migration is not None, "a live move without an address was refused"
    return MoveDomain(
        name=vm.name,
        vm_id=vm.id,
        to=plan.target.migration,
        persistent_xml=xml,
        allocations=move.new,
        copied=tuple(disk.guest_name for disk in move.carried if not disk.cdrom),
        timeout_s=plan.timeout_s,
        **_seat(move),
    )


def _seat(move: _Move) -> dict[str, Any]:
    """The parts of the domain's XML that differ on the target."""
    return {
        "devices": _pairs(move.old, move.new),
        "files": {disk.path: disk.target_path for disk in move.plan.disks},
        "ownership": ownership(move.vm, move.new, move.site.fleet),
        "cpus": move.vm.cpus,
        "seat": numa_seat(move.vm, move.new, move.site),
    }


def _pairs(old: Sequence[Allocation], new: Sequence[Allocation]) -> dict[str, str]:
    """The device that each part becomes: any of the same profile will do."""
    left = list(new)
    pairs = {}
    for each in old:
        twin = next(a for a in left if (a.profile, a.framework) == (each.profile, each.framework))
        left.remove(twin)
        pairs[each.device] = twin.device
    return pairs


def _devices(allocations: Sequence[Allocation]) -> tuple[str, ...]:
    """Host devices that the domain names: each part, and the functions that follow it."""
    return tuple(device for each in allocations for device in (each.device, *each.companions))
