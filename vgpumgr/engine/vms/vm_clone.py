"""`vm clone`: a new VM like another one, with copies of its disks or laid over a snapshot of it."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.reservation.snapshot_reservations import placed_disks
from vgpumgr.engine.reservation.vm_volumes import attached
from vgpumgr.engine.storage.storage_driver import Ability
from vgpumgr.engine.storage.storage_drivers import able
from vgpumgr.engine.vms.vm_snapshots import other_disks, require
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict
from vgpumgr.model.snapshot import Snapshot
from vgpumgr.model.vm import VmRecord, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec


def clone_spec(context: EngineContext, source: VmRecord, name: str, snapshot: str = "") -> VmSpec:
    """The VM to make: all that the source asks for, on its host. Each disk is a copy of the
    source's, or with ``snapshot`` is laid over that: no byte is copied, and the snapshot stays for
    as long as the clone does.

    It starts at once: terms of the queue are left out. Conflict while the source is not off, as
    a disk that is written to is no copy of itself, but for a snapshot, which is not; for a source
    that is adopted; and for one that an operation works on.
    """
    _refuse_always(context, source)
    if snapshot:
        disks = _over(context, source, require(source, snapshot))
    else:
        _refuse_running(context, source)
        volumes = [each for each in attached(source) if each.disk is not None]
        disks = tuple(_copy(each.disk, each.name) for each in volumes if each.disk)
    affinity = replace(source.spec.affinity, hosts=(source.host,))
    nics = tuple(replace(each, mac="") for each in source.spec.nics)
    own = replace(source.spec, name=name, uuid="", nics=nics, disks=disks)
    return replace(own, affinity=affinity, queue=None)


def _copy(disk: DiskSpec, volume: str) -> DiskSpec:
    return replace(disk, mode=DiskMode.COPY, image=volume, image_format=disk.format)


def _over(context: EngineContext, source: VmRecord, snapshot: Snapshot) -> tuple[DiskSpec, ...]:
    """Disks over the snapshot's; Conflict where the source has others since, or a pool cannot."""
    pairs = list(zip(placed_disks(source, context.view()), snapshot.volumes, strict=False))
    if len(snapshot.volumes) != len(source.spec.disks):
        raise other_disks(source, snapshot)
    for (placed, kind), _ in pairs:
        able(placed.volume[0], kind, Ability.THIN_CLONE)
    return tuple(
        replace(disk, mode=DiskMode.OVERLAY, image=volume, image_format=disk.format)
        for disk, (_, volume) in zip(source.spec.disks, snapshot.volumes, strict=True)
    )


def _refuse_always(context: EngineContext, source: VmRecord) -> None:
    if source.definition:
        raise Conflict(
            f"{source.name} cannot be cloned",
            why="it was adopted: its disks are not the fleet's",
            next="vgpumgr image import, then a VM with that image",
        )
    operation_lifecycle.refuse_unfinished(context.ledger, [source])


def _refuse_running(context: EngineContext, source: VmRecord) -> None:
    found = context.host(source.host).domains.look(source.name)
    if found is not None and found.state not in OFF:
        raise Conflict(
            f"{source.name} is {found.state}: its disks are being written to",
            why="a copy of them would be of no moment in particular",
            next=f"vgpumgr vm stop {source.name}, then the same command; or with --snapshot",
        )
