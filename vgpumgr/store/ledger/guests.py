"""VMs with guests, and what is known of them, in their rows; the trail tells of each new phase."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from vgpumgr.model.codec import dump, load, printable
from vgpumgr.model.guest import GuestRecord
from vgpumgr.model.vm import VmRecord
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.vms import OPEN_VMS, vm_of
from vgpumgr.store.schema import vm

# A spec's text says so where it has none, which is far quicker than reading every spec.
_WITH_GUESTS = OPEN_VMS.where(vm.c.spec.not_like('%"guest":null%'))


def vms_with_guests(connection: Connection) -> tuple[VmRecord, ...]:
    """VMs that are not deleted and whose files say what is made of their guests, by name."""
    found = map(vm_of, connection.execute(_WITH_GUESTS))
    return tuple(each for each in found if each.spec.guest is not None)


def note_guests(connection: Connection, stamp: Stamp, records: Sequence[GuestRecord]) -> None:
    """Write the records into the rows of VMs that are not deleted."""
    told = []
    for record in records:
        open_ = (vm.c.id == record.vm_id, vm.c.deleted_at.is_(None))
        row = connection.execute(
            select(vm.c.name, vm.c.host, vm.c.guest).where(*open_).with_for_update()
        ).one_or_none()
        if row is None:
            continue
        before = load(GuestRecord, row.guest) if row.guest else GuestRecord(vm_id=record.vm_id)
        connection.execute(update(vm).where(*open_).values(guest=dump(record)))
        if before.phase is not record.phase:
            event = f"vm.guest-{record.phase}"
            detail = printable(record.why)
            told.append({"event": event, "vm": row.name, "host": row.host, "detail": detail})
        if record.emptied_at and not before.emptied_at:
            told.append({"event": "vm.seed-emptied", "vm": row.name, "host": row.host})
    if told:
        write(connection, stamp, told)
