"""Snapshots of a VM's disks: taken while it is off or runs, and its disks brought back to one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from vgpumgr import domainxml
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    refuse_shelved,
    until_current,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.reservation.snapshot_reservations import (
    KeptDisks,
    placed_disks,
    revert_reservation,
    snapshot_reservation,
    unsnapshot_reservation,
)
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.engine.reservation.vm_volumes import volume_path
from vgpumgr.engine.steps.snapshot_steps import backing_file
from vgpumgr.engine.storage.storage_driver import Ability, VolumeName
from vgpumgr.engine.storage.storage_drivers import able
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.errors import Conflict, NotFound, StillRunning, UsageError
from vgpumgr.model.operation import OF_SNAPSHOTS, Reservation
from vgpumgr.model.ports import Host
from vgpumgr.model.snapshot import MOST_SNAPSHOTS, DiskMoment, Snapshot
from vgpumgr.model.vm import NAME, VmRecord


@dataclass(frozen=True, slots=True)
class Looked:
    """A VM whose disks are to be kept or changed, as its host shows it now."""

    view: LedgerView
    kept: KeptDisks
    state: DomainState

    @property
    def runs(self) -> bool:
        """Does it run?"""
        return self.state not in OFF


def create(context: EngineContext, name: str, snapshot: str, *, freeze: bool) -> Outcome:
    """Keep what the VM's disks hold now, all at one moment. With ``freeze`` the guest's agent has
    its file systems whole at that moment; a guest that runs without looks afterwards as after a
    power cut.

    Conflict where that cannot be; an interrupted snapshot is finished.
    """

    def start(vm: VmRecord) -> Reservation:
        _refuse_more(vm, snapshot)
        looked = _looked(context, vm)
        _refuse_left_out(context.host(vm.host), vm)
        _refuse_under_guest(looked, snapshot)
        moment = _moment(looked, freeze=freeze)
        return snapshot_reservation(looked.kept, snapshot, moment, looked.view, context.opening())

    return _run(context, name, lambda vm: vm.snapshots.find(snapshot) is not None, start)


def revert(
    context: EngineContext, name: str, snapshot: str, stop: StopManner | None = None
) -> Outcome:
    """Bring the VM's disks back to a snapshot; what was written since then is lost, all snapshots
    stay. StillRunning where it runs, unless it may be stopped so, and started again.
    """

    def start(vm: VmRecord) -> Reservation:
        found = require(vm, snapshot)
        looked = _looked(context, vm)
        _refuse_left_out(context.host(vm.host), vm)
        if looked.runs and stop is None:
            raise _still_running(vm, snapshot)
        if len(found.volumes) != len(looked.kept.disks):
            raise other_disks(vm, found)
        how = stop if looked.runs else None
        if how is not None:
            tell_now(context, [name])
        return revert_reservation(looked.kept, found, how, looked.view, context.opening())

    return _run(context, name, lambda vm: vm.snapshots.current == snapshot, start)


def delete(context: EngineContext, name: str, snapshot: str) -> Outcome:
    """Delete a snapshot: the VM's disks and the other snapshots stay as they are."""

    def start(vm: VmRecord) -> Reservation:
        found = require(vm, snapshot)
        looked = _looked(context, vm)
        _refuse_needed(vm, found, looked.view.vms, runs=looked.runs)
        below = list(_below(context.host(vm.host), looked, found))
        return unsnapshot_reservation(looked.kept, found, below, looked.view, context.opening())

    return _run(context, name, lambda vm: vm.snapshots.find(snapshot) is None, start)


def _refuse_needed(
    vm: VmRecord, snapshot: Snapshot, vms: Iterable[VmRecord], *, runs: bool
) -> None:
    """Conflict where a clone or more than one thing is laid over it, or a snapshot while the VM
    runs: QEMU has the files of its chain open, and lets only the first of them change.
    """
    refuse_cloned([(vm, snapshot.volumes)], vms)
    over = [each.name for each in vm.snapshots.over(snapshot.name)]
    if len(over) + (vm.snapshots.current == snapshot.name) > 1:
        raise Conflict(
            f"snapshot {snapshot.name} of {vm.name} is needed",
            why=f"{' and '.join(over)} and the disks as they are are laid over it"
            if vm.snapshots.current == snapshot.name
            else f"{' and '.join(over)} are laid over it",
            next=f"vgpumgr vm snapshot delete {vm.name} {over[-1]}, then the same command",
        )
    if over and runs and over[0] in vm.snapshots.below_disks():
        raise StillRunning(
            f"{vm.name} runs with {over[0]}, which is laid over snapshot {snapshot.name}",
            next=f"vgpumgr vm stop {vm.name}, then the same command",
        )


def refuse_cloned(
    going: Iterable[tuple[VmRecord, Collection[VolumeName]]], vms: Iterable[VmRecord]
) -> None:
    """Conflict where one of the ``vms`` is laid over volumes of others that are to go."""
    others = tuple(vms)
    for vm, volumes in going:
        clones = [each.name for each in others if each.spec.is_laid_over(volumes)]
        if clones:
            raise Conflict(
                f"the disks of {', '.join(clones)} are laid over a snapshot of {vm.name}",
                why="without it they could not be read",
                next=f"vgpumgr vm delete {' '.join(clones)}, then the same command",
            )


def _below(host: Host, looked: Looked, snapshot: Snapshot) -> Iterator[str]:
    """What each volume of it names in its header; nothing where it names nothing."""
    facts = VmSites(looked.view).site(looked.kept.vm.host).facts
    for driver, volume in zip(looked.kept.drivers, snapshot.volumes, strict=False):
        yield backing_file(host, volume_path(facts, *volume)) if driver.layered else ""


def require(vm: VmRecord, snapshot: str) -> Snapshot:
    """The snapshot of that name; NotFound names the snapshots that exist."""
    found = vm.snapshots.find(snapshot)
    if found is None:
        names = ", ".join(each.name for each in vm.snapshots) or "none"
        raise NotFound(
            f"{vm.name} has no snapshot {snapshot}",
            why=f"it has: {names}",
            next=f"vgpumgr vm snapshot list {vm.name}",
        )
    return found


def _run(
    context: EngineContext,
    name: str,
    done: Callable[[VmRecord], bool],
    start: Callable[[VmRecord], Reservation],
) -> Outcome:
    """Finish what was interrupted; then, unless the VM is as it was to be by that, begin."""
    spec = context.ledger.vm(name).spec
    before = operation_lifecycle.finish_leftovers(context, {name: spec}, OF_SNAPSHOTS)
    if before.vms and done(context.ledger.vm(name)):
        return before

    def attempt() -> Outcome:
        vm = context.ledger.vm(name)
        refuse_always(context, vm)
        return operation_lifecycle.begin(context, start(vm))

    return before.then(until_current(attempt))


def refuse_always(context: EngineContext, vm: VmRecord) -> None:
    """Conflict for a VM whose disks are not the fleet's, or not at rest."""
    if vm.definition:
        raise Conflict(
            f"{vm.name} can have no snapshots",
            why="it was adopted: its disks are not the fleet's",
            next="vgpumgr image import, then a VM with that image",
        )
    operation_lifecycle.refuse_unfinished(context.ledger, [vm])
    refuse_shelved([vm])


def _looked(context: EngineContext, vm: VmRecord) -> Looked:
    """Look at the VM and its volumes; raises what keeps its disks from being touched."""
    for error in context.refresh({vm.host}).failed.values():
        raise error
    view = context.view()
    refuse_resting([(vm.name, vm.host)], observed_domains(view).resting)
    host = context.host(vm.host)
    state = _state(host, vm)
    disks = []
    drivers = []
    for disk, kind in placed_disks(vm, view):
        driver = able(disk.volume[0], kind, Ability.SNAPSHOT)
        found = host.storage.look(*disk.volume)
        if found is None:
            raise _no_volume(vm, disk.volume)
        disks.append(replace(disk, size_bytes=found.capacity_bytes))
        drivers.append(driver)
        if why := driver.refusal(disk):
            raise Conflict(f"{vm.name} can have no snapshots", why=why)
    if not disks:
        raise Conflict(f"{vm.name} can have no snapshots", why="it has no disks")
    return Looked(view, KeptDisks(vm, tuple(disks), tuple(drivers)), state)


def refuse_memory(vm: VmRecord) -> None:
    """Conflict: what a guest computes on a GPU lies in the GPU, and is in no file of its memory."""
    parts = ", ".join(dict.fromkeys(each.profile or "a part by size" for each in vm.spec.gpus))
    why = f"what its GPU part ({parts}) holds is not in its memory, and would be lost"
    raise Conflict(
        f"the memory of {vm.name} is not kept in a snapshot",
        why=why if vm.spec.gpus else "snapshots are of disks",
        next="the same command without --memory, and with --freeze where it has a guest agent",
    )


def _state(host: Host, vm: VmRecord) -> DomainState:
    """Of its domain; Conflict where a snapshot of the disks would leave something out."""
    found = host.domains.look(vm.name)
    if found is None:
        return DomainState.SHUTOFF
    if found.state not in {DomainState.RUNNING, *OFF}:
        raise Conflict(
            f"{vm.name} is {found.state} on {vm.host}", next=f"vgpumgr vm stop {vm.name}"
        )
    beside = host.domains.kept_beside(vm.name)
    if beside.saved_state or beside.snapshots:
        what = (
            "its memory is saved to disk" if beside.saved_state else "it has snapshots of libvirt's"
        )
        raise Conflict(
            f"{vm.name}: {what} on {vm.host}",
            why="they belong to the disks as they are",
            next=f"virsh snapshot-list {vm.name}; virsh managedsave-remove {vm.name}",
        )
    return found.state


def _refuse_left_out(host: Host, vm: VmRecord) -> None:
    """Conflict where a part of the VM has a state that is not on its disks."""
    if host.domains.look(vm.name) is None:
        return
    if left := domainxml.state_beside_disks(host.domains.xml(vm.name)):
        raise Conflict(
            f"{vm.name} can have no snapshots",
            why=f"its {left} has a state of its own, which its disks do not hold",
        )


def _refuse_under_guest(looked: Looked, snapshot: str) -> None:
    """StillRunning where it runs on storage that a running QEMU cannot go on from elsewhere."""
    vm = looked.kept.vm
    for driver, disk in zip(looked.kept.drivers, looked.kept.disks, strict=True):
        if looked.runs and Ability.RUNNING_SNAPSHOT not in driver.abilities:
            raise StillRunning(
                f"{vm.name} runs: its disk {disk.guest_name} cannot be kept as it is now",
                why=f"storage pool {disk.volume[0]} knows no {Ability.RUNNING_SNAPSHOT}",
                next=f"vgpumgr vm stop {vm.name}, then "
                f"vgpumgr vm snapshot create {vm.name} {snapshot}",
            )


def _moment(looked: Looked, *, freeze: bool) -> DiskMoment:
    vm = looked.kept.vm
    if not looked.runs:
        return DiskMoment.OFF
    if freeze and not vm.spec.agent:
        raise Conflict(
            f"{vm.name} has no guest agent that could freeze it",
            why="its file does not say agent: true",
            next=f"the same command without --freeze, or vgpumgr vm stop {vm.name} first",
        )
    return DiskMoment.FROZEN if freeze else DiskMoment.RUNNING


def _refuse_more(vm: VmRecord, snapshot: str) -> None:
    if not re.fullmatch(NAME, snapshot):
        raise UsageError(
            f"{snapshot!r:.80} is no name of a snapshot", next="small letters, digits and -"
        )
    if vm.snapshots.find(snapshot):
        raise Conflict(
            f"{vm.name} has a snapshot {snapshot} already",
            next=f"another name, or vgpumgr vm snapshot delete {vm.name} {snapshot}",
        )
    if len(vm.snapshots.snapshots) >= MOST_SNAPSHOTS:
        oldest = vm.snapshots.snapshots[0].name
        raise Conflict(
            f"{vm.name} has {MOST_SNAPSHOTS} snapshots",
            why="each read of its disks asks all of them: that is the most there may be",
            next=f"vgpumgr vm snapshot delete {vm.name} {oldest}",
        )


def _still_running(vm: VmRecord, snapshot: str) -> StillRunning:
    return StillRunning(
        f"{vm.name} runs: its disks cannot be brought back under it",
        next=f"vgpumgr vm stop {vm.name}, then the same command; or "
        f"vgpumgr vm snapshot revert {vm.name} {snapshot} --restart",
    )


def other_disks(vm: VmRecord, snapshot: Snapshot) -> Conflict:
    """The error for a snapshot of fewer disks than the VM has now."""
    return Conflict(
        f"{vm.name} has other disks than it had at {snapshot.name}",
        why=f"it has {len(vm.spec.disks)}, the snapshot has {len(snapshot.volumes)}",
        next=f"vgpumgr vm snapshot list {vm.name}",
    )


def _no_volume(vm: VmRecord, volume: tuple[str, str]) -> Conflict:
    return Conflict(
        f"volume {'/'.join(volume)} of {vm.name} is not on {vm.host}",
        why="without it the VM would not be what it was",
        next=f"vgpumgr drift {vm.host}",
    )
