"""The first disk of a VM in its row, replaced by a volume that was made for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from vgpumgr.model.codec import dump, load, load_list
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec
from vgpumgr.store.ledger.audit_trail import Stamp, of_vms
from vgpumgr.store.schema import vm
from vgpumgr.store.schema.columns import decodes

_REIMAGED = of_vms("vm.reimaged", vm.c.id == bindparam("in_vm"))


def put_first_disk(
    connection: Connection, stamp: Stamp, vm_id: str, task: str, made: VolumePlan
) -> None:
    """Write the volume that was made into the VM's spec and volumes, in the place of its first."""
    it = vm.c.id == vm_id
    row = connection.execute(
        select(vm.c.id, vm.c.spec, vm.c.volumes).where(it).with_for_update()
    ).one()
    connection.execute(update(vm).where(it).values(**_with(row, made)))
    connection.execute(_REIMAGED, {"in_task": task, "in_vm": vm_id, **stamp.values})


@decodes(vm)
def _with(row: Any, made: VolumePlan) -> dict[str, str]:
    spec = load(VmSpec, row.spec)
    return {
        "spec": dump(replace(spec, disks=(_disk(made), *spec.disks[1:]))),
        "volumes": dump([(made.pool, made.name), *load_list(row.volumes)[1:]]),
    }


def _disk(made: VolumePlan) -> DiskSpec:
    return DiskSpec(
        pool=made.pool,
        size_bytes=made.capacity_bytes,
        mode=DiskMode(made.mode),
        image=made.source,
        image_format=made.source_format or made.format,
        format=made.format,
    )
