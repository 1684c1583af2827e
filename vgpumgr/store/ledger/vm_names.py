"""Names of VMs in the ledger: the ones that a renaming holds, and all rows that name a renamed VM.

What is history (requests, tasks, the trail) keeps the name that the VM had then.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, bindparam, select, update

from vgpumgr.model.codec import dump, load
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import VmPlace, VmSpec
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import allocation, logoff_move, queue, task, vm

_GOING = select(vm.c.name, vm.c.moving_to).where(
    vm.c.moving_to.is_not(None), vm.c.deleted_at.is_(None)
)
_NAMED = select(vm.c.id, vm.c.name).where(
    vm.c.deleted_at.is_(None), vm.c.name.in_(bindparam("in_names", expanding=True))
)
_QUEUED = select(queue.c.id, queue.c.spec).where(queue.c.closed_at.is_(None))


def refuse_held_names(connection: Connection, start: Reservation) -> None:
    """Conflict where a new VM is to have the name that another one is getting, or a VM is getting
    the name of another one: writers take turns, so that nothing comes between.
    """
    wanted = {each.name for each in start.vms}
    getting = {
        each.moving_to.spec.name: each.id
        for each in start.changed_vms
        if each.moving_to is not None
        and each.moving_to.spec is not None
        and each.moving_to.spec.name != each.name
    }
    if not wanted and not getting:
        return
    held = {_new_name(row.moving_to): row.name for row in connection.execute(_GOING)}
    mine = {each.name for each in start.changed_vms}
    for name in sorted(wanted.union(getting)):
        if held.get(name, name) not in {name, *mine}:
            raise _taken(name, f"{held[name]} is being renamed to it")
    for row in connection.execute(_NAMED, {"in_names": sorted(getting)}) if getting else ():
        if getting[row.name] != row.id:
            raise _taken(row.name, "it was created since the plan")


def _new_name(moving_to: str) -> str:
    going = load(VmPlace, moving_to)
    return going.spec.name if going.spec is not None else ""


def _taken(name: str, why: str) -> Conflict:
    return Conflict(f"a VM {name} exists already", why=why, next=f"vgpumgr vm show {name}")


def rename_vm(connection: Connection, stamp: Stamp, vm_id: str, in_task: str, name: str) -> None:
    """Write a VM's new name into every row that speaks of it as it is, and tell the trail. A backup
    is of the VM as it was called then: its volumes are.
    """
    was = connection.execute(
        select(vm.c.name, vm.c.host, vm.c.generation).where(vm.c.id == vm_id)
    ).one()
    connection.execute(update(vm).where(vm.c.id == vm_id).values(name=name))
    for table, open_ in (
        (allocation, allocation.c.released_at.is_(None)),
        (logoff_move, logoff_move.c.closed_at.is_(None)),
    ):
        connection.execute(update(table).where(table.c.vm_id == vm_id, open_).values(vm=name))
    for row in connection.execute(_QUEUED.where(queue.c.vm_id == vm_id)).all():
        spec = dump(replace(load(VmSpec, row.spec), name=name))
        connection.execute(update(queue).where(queue.c.id == row.id).values(name=name, spec=spec))
    operation = select(task.c.operation).where(task.c.id == in_task)
    told = {
        "event": "vm.renamed",
        "vm": name,
        "host": was.host,
        "task": in_task,
        "operation": connection.execute(operation).scalar_one(),
        "before": was.generation,
        "after": was.generation,
        "detail": f"was {was.name}",
    }
    write(connection, stamp, [told])
