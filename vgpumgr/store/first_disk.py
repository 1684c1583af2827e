"""A VM's first disk made anew: its record says so from then on."""

from __future__ import annotations

import json
from dataclasses import replace

from sqlalchemy import Connection, bindparam, select, update

from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.vm import DiskMode, DiskSpec, VmSpec
from vgpumgr.store.audit import Stamp, of_vms
from vgpumgr.store.codec import dump, load
from vgpumgr.store.schema import vm

_REIMAGED = of_vms("vm.reimaged", vm.c.id == bindparam("in_vm"))


def put_first_disk(
    connection: Connection, vm_id: str, task: str, made: VolumePlan, stamp: Stamp
) -> None:
    """Write the volume that was made into the VM's spec and volumes, in the place of its first."""
    it = vm.c.id == vm_id
    row = connection.execute(select(vm.c.spec, vm.c.volumes).where(it).with_for_update()).one()
    spec = load(VmSpec, row.spec)
    values = {
        "spec": dump(replace(spec, disks=(_disk(made), *spec.disks[1:]))),
        "volumes": dump([(made.pool, made.name), *json.loads(row.volumes)[1:]]),
    }
    connection.execute(update(vm).where(it).values(**values))
    connection.execute(_REIMAGED, {"in_task": task, "in_vm": vm_id, **stamp.values})


def _disk(made: VolumePlan) -> DiskSpec:
    return DiskSpec(
        pool=made.pool,
        size_bytes=made.capacity_bytes,
        mode=DiskMode(made.mode),
        image=made.source,
        image_format=made.source_format or made.format,
        format=made.format,
    )
