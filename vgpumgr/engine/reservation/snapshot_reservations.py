"""The transactions of a VM's snapshots: taken, its disks brought back to one, one deleted.

Meanwhile the VM is marked as moving, to the same place with other volumes: nothing else touches
it, and what ends the operation makes it one or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.engine.reservation.vm_volumes import attached, laid_over_name, volume_path
from vgpumgr.engine.steps.domain_steps import RedefineDomain, StartDomain
from vgpumgr.engine.steps.snapshot_steps import (
    DeleteLeft,
    MarkSwitched,
    StopToRevert,
    SwitchDisks,
    ThawGuest,
)
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.storage.storage_driver import PlacedDisk, StorageDriver, VolumeName
from vgpumgr.engine.storage.storage_drivers import create_volume
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.host import HostFacts
from vgpumgr.model.operation import REVERT, SNAPSHOT, UNSNAPSHOT, Reservation
from vgpumgr.model.snapshot import DiskMoment, Snapshot, SnapshotTree
from vgpumgr.model.vm import VmPlace, VmRecord, VmState


@dataclass(frozen=True, slots=True)
class KeptDisks:
    """A VM with its disks where they lie, and the driver of each one's pool."""

    vm: VmRecord
    disks: tuple[PlacedDisk, ...]
    drivers: tuple[StorageDriver, ...]

    def over(self, kept: Sequence[VolumeName], sites: VmSites) -> tuple[VolumePlan, ...]:
        """New volumes over kept ones, as large as the disks are now."""
        facts = sites.site(self.vm.host).facts
        return tuple(
            driver.over(
                replace(disk, volume=volume, path=volume_path(facts, *volume)),
                laid_over_name(self.vm, number),
            )
            for number, (driver, disk, volume) in enumerate(
                zip(self.drivers, self.disks, kept, strict=True)
            )
        )


def snapshot_reservation(
    kept: KeptDisks, name: str, moment: DiskMoment, view: LedgerView, opening: OperationOpening
) -> Reservation:
    """What the VM's disks hold is kept, and it goes on in new volumes."""
    vm, sites = kept.vm, VmSites(view)
    frozen = [
        driver.freeze(disk, laid_over_name(vm, number))
        for number, (driver, disk) in enumerate(zip(kept.drivers, kept.disks, strict=True))
    ]
    made = Snapshot(
        name=name,
        created_at=opening.now,
        moment=moment,
        volumes=tuple(each.kept for each in frozen),
    )
    there = _there(vm, [each.goes_on for each in frozen], vm.snapshots.taken(made))
    files = {
        disk.guest_name: volume_path(sites.site(vm.host).facts, *each.goes_on)
        for disk, each in zip(kept.disks, frozen, strict=True)
    }
    steps = (
        *(create_volume(each.make, sites.site(vm.host).facts) for each in frozen),
        _redefine(vm, there, sites),
        SwitchDisks(name=vm.name, vm_id=vm.id, files=files, moment=moment),
        *([ThawGuest(vm.name, vm.id)] if moment is DiskMoment.FROZEN else []),
        MarkSwitched(vm.name, vm.id, sites.mark(there)),
    )
    return _reservation("vm snapshot create", SNAPSHOT, vm, there, steps, view, opening)


def revert_reservation(
    kept: KeptDisks,
    snapshot: Snapshot,
    stop: StopManner | None,
    view: LedgerView,
    opening: OperationOpening,
) -> Reservation:
    """The VM gets new volumes over those of the snapshot, and what it wrote since is deleted. With
    ``stop`` it is stopped so, and started again.
    """
    vm, sites = kept.vm, VmSites(view)
    new = kept.over(snapshot.volumes, sites)
    there = _there(vm, [(each.pool, each.name) for each in new], vm.snapshots.at(snapshot.name))
    steps = (
        *(create_volume(each, sites.site(vm.host).facts) for each in new),
        *([_stopped(vm, stop)] if stop else []),
        _redefine(vm, there, sites),
        *([StartDomain(name=vm.name, vm_id=vm.id)] if stop else []),
        *_deletions(vm, vm.volumes[: len(new)]),
    )
    return _reservation("vm snapshot revert", REVERT, vm, there, steps, view, opening)


def unsnapshot_reservation(
    kept: KeptDisks,
    snapshot: Snapshot,
    below: Sequence[str],
    view: LedgerView,
    opening: OperationOpening,
) -> Reservation:
    """What is laid over the volumes of a snapshot stands without them, and they are deleted.
    ``below`` are the paths of what they are laid over themselves, empty for nothing.
    """
    vm = kept.vm
    there = replace(vm, snapshots=vm.snapshots.without(snapshot.name))
    steps = (
        *_dissolutions(kept, snapshot, below, VmSites(view)),
        *_deletions(vm, snapshot.volumes),
    )
    return _reservation("vm snapshot delete", UNSNAPSHOT, vm, there, steps, view, opening)


def _dissolutions(
    kept: KeptDisks, snapshot: Snapshot, below: Sequence[str], sites: VmSites
) -> Iterator[Step]:
    vm, facts = kept.vm, sites.site(kept.vm.host).facts
    for number, (driver, disk) in enumerate(zip(kept.drivers, kept.disks, strict=True)):
        lower = kept_volume(disk, snapshot.volumes[number], facts, below[number])
        if vm.snapshots.current == snapshot.name:
            yield from driver.dissolve(lower, disk, vm)
        for each in vm.snapshots.over(snapshot.name):
            upper = kept_volume(disk, each.volumes[number], facts)
            yield from driver.dissolve(lower, upper, vm)


def kept_volume(
    disk: PlacedDisk, volume: VolumeName, facts: HostFacts, below: str = ""
) -> PlacedDisk:
    """The volume of a snapshot for a disk."""
    path = volume_path(facts, *volume)
    return replace(disk, volume=volume, path=path, guest_name="", below=below)


def _deletions(vm: VmRecord, volumes: Sequence[VolumeName]) -> tuple[Step, ...]:
    return tuple(
        DeleteLeft(pool=pool, name=name, vm=vm.name, vm_id=vm.id) for pool, name in volumes
    )


def _stopped(vm: VmRecord, stop: StopManner) -> Step:
    return StopToRevert(
        name=vm.name,
        vm_id=vm.id,
        force=stop.force,
        timeout_s=stop.timeout_s,
        at_last=stop.at_last,
    )


def _there(vm: VmRecord, disks: Sequence[VolumeName], tree: SnapshotTree) -> VmRecord:
    """The VM with these volumes for its disks; its cloud-init seed stays."""
    volumes = (*disks, *vm.volumes[len(disks) :])
    return replace(vm, volumes=volumes, snapshots=tree, generation=vm.generation + 1)


def _redefine(vm: VmRecord, there: VmRecord, sites: VmSites) -> Step:
    autostart = sites.site(vm.host).autostarts(vm.spec)
    return RedefineDomain(
        name=vm.name,
        vm_id=vm.id,
        xml=sites.definition(there),
        old_xml=sites.definition(vm),
        autostart=autostart,
        old_autostart=autostart,
    )


def _reservation(
    kind: str,
    verb: str,
    vm: VmRecord,
    there: VmRecord,
    steps: Sequence[Step],
    view: LedgerView,
    opening: OperationOpening,
) -> Reservation:
    operation = opening.operation(kind)
    to = VmPlace(
        host=vm.host,
        numa_node=vm.numa_node,
        cpus=vm.cpus,
        volumes=there.volumes,
        snapshots=there.snapshots,
        parts_stay=True,
        nic_functions=vm.nic_functions,
    )
    moving = replace(vm, state=VmState.MIGRATING, moving_to=to)
    return Reservation(
        operation=operation,
        tasks=(opening.task(operation, verb, steps, vm_id=vm.id, vm=vm.name, host=vm.host),),
        changed_vms=(moving,),
        host_generations={
            each.name: each.generation for each in view.hosts if each.name == vm.host
        },
    )


def placed_disks(vm: VmRecord, view: LedgerView) -> Iterator[tuple[PlacedDisk, str]]:
    """The disks of a VM as its record has them, sizes left out, each with the kind of its pool."""
    facts = VmSites(view).site(vm.host).facts
    kinds = {pool.name: pool.kind for pool in facts.pools}
    for each in attached(vm):
        if each.disk is None:
            continue
        yield (
            PlacedDisk(
                volume=(each.pool, each.name),
                path=volume_path(facts, each.pool, each.name),
                format=each.format,
                size_bytes=0,
                guest_name=each.guest_name,
            ),
            kinds.get(each.pool, ""),
        )
