"""`vm clone`: a new VM like one that is off, with copies of its disks."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.reservation.vm_volumes import attached
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict
from vgpumgr.model.vm import DiskMode, DiskSpec, VmRecord, VmSpec


def clone_spec(context: EngineContext, source: VmRecord, name: str) -> VmSpec:
    """The VM to make: all that the source asks for, on its host, each disk a copy of the source's.

    It starts at once: terms of the queue are left out. Conflict while the source is not off, as
    a disk that is written to is no copy of itself; for a source that is adopted; and for one that
    an operation works on.
    """
    _refuse(context, source)
    volumes = [each for each in attached(source) if each.disk is not None]
    disks = tuple(_copy(each.disk, each.name) for each in volumes if each.disk)
    affinity = replace(source.spec.affinity, hosts=(source.host,))
    nics = tuple(replace(each, mac="") for each in source.spec.nics)
    return replace(source.spec, name=name, disks=disks, nics=nics, affinity=affinity, queue=None)


def _copy(disk: DiskSpec, volume: str) -> DiskSpec:
    return replace(disk, mode=DiskMode.COPY, image=volume, image_format=disk.format)


def _refuse(context: EngineContext, source: VmRecord) -> None:
    if source.definition:
        raise Conflict(
            f"{source.name} cannot be cloned",
            why="it was adopted: its disks are not the fleet's",
            next="vgpumgr image import, then a VM with that image",
        )
    operation_lifecycle.refuse_unfinished(context.ledger, [source])
    found = context.host(source.host).domains.look(source.name)
    if found is not None and found.state not in OFF:
        raise Conflict(
            f"{source.name} is {found.state}: its disks are being written to",
            why="a copy of them would be of no moment in particular",
            next=f"vgpumgr vm stop {source.name}, then the same command",
        )
