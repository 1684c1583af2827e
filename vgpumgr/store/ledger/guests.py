"""What is known of VMs' guests, in their rows; the trail tells of each new phase."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from vgpumgr.model.codec import dump, load, printable
from vgpumgr.model.guest import GuestRecord
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import vm


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
