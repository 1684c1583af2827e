"""Hosts on their way into the fleet or out of it: their row says so until their task has ended."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, select, update

from vgpumgr.model.host import Membership
from vgpumgr.model.journal import Reservation
from vgpumgr.store.audit import Stamp
from vgpumgr.store.host_rows import settings
from vgpumgr.store.host_use import refuse_used
from vgpumgr.store.hosts import add_host, get_host, remove_host, tell
from vgpumgr.store.schema import gpu, host, task

_OPEN = host.c.removed_at.is_(None)


def begin(connection: Connection, start: Reservation, stamp: Stamp) -> None:
    """Add the hosts that join, mark those that leave; Conflict where they cannot."""
    for record in start.joining:
        add_host(connection, replace(record, membership=Membership.JOINING), stamp)
    for name in start.leaving:
        refuse_used(connection, name)
        _mark(connection, name, Membership.LEAVING, "host.leaving", stamp)
        # Whoever has planned something for its GPUs plans again.
        raised = update(gpu).where(gpu.c.host == name).values(generation=gpu.c.generation + 1)
        connection.execute(raised)


def end(connection: Connection, task_id: str, *, enrolled: bool, stamp: Stamp) -> None:
    """The host that a task is about is in the fleet, or out of it; saying it twice is no error."""
    name = connection.execute(select(task.c.host).where(task.c.id == task_id)).scalar_one()
    known = connection.execute(select(host.c.id).where(_OPEN, host.c.name == name)).first()
    before = get_host(connection, name).membership if known else Membership.MEMBER
    if before is Membership.MEMBER:
        return
    if enrolled:
        event = "host.added" if before is Membership.JOINING else "host.stayed"
        _mark(connection, name, Membership.MEMBER, event, stamp)
    else:
        remove_host(connection, name, stamp)


def _mark(
    connection: Connection, name: str, membership: Membership, event: str, stamp: Stamp
) -> None:
    record = get_host(connection, name)
    after = replace(record, membership=membership, generation=record.generation + 1)
    values = {"settings": settings(after), "generation": after.generation}
    connection.execute(update(host).where(_OPEN, host.c.name == name).values(**values))
    tell(connection, stamp, event, after, record.generation, after.generation)
