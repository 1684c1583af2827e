"""The ledger's epoch, and its freeze, in which nothing is allocated."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from vgpumgr.model.codec import printable
from vgpumgr.model.ledger_state import Freeze
from vgpumgr.model.operation import CLEAN, LEAVE, OF_HOSTS, RELEASE, Reservation
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import meta

# What a frozen ledger still lets begin: it gives back, and makes nothing for a VM. A VM that the
# ledger would start may run elsewhere by now; a host that it lacks has to be asked what it knows.
GIVING_BACK = frozenset({"delete", "stop", "reboot", RELEASE, CLEAN, LEAVE, *OF_HOSTS})

_FROZEN = select(meta.c.frozen_why, meta.c.frozen_at)


def frozen(connection: Connection) -> Freeze | None:
    """Why nothing may be allocated; None where it may."""
    row = connection.execute(_FROZEN).one()
    return Freeze(why=row.frozen_why, at=row.frozen_at or 0.0) if row.frozen_why else None


def freeze(connection: Connection, stamp: Stamp, why: str) -> None:
    """Freeze; one that is frozen keeps its first reason."""
    changed = connection.execute(
        update(meta)
        .where(meta.c.frozen_why == "")
        .values(frozen_why=printable(why), frozen_at=stamp.at)
    )
    if changed.rowcount:
        write(connection, stamp, [{"event": "store.frozen", "detail": why}])


def thaw(connection: Connection, stamp: Stamp, epoch: int) -> None:
    """Lift the freeze in a new epoch, ``epoch`` at least."""
    raise_epoch(connection, stamp, epoch)
    changed = connection.execute(
        update(meta).where(meta.c.frozen_why != "").values(frozen_why="", frozen_at=None)
    )
    if changed.rowcount:
        write(connection, stamp, [{"event": "store.thawed"}])


def read_epoch(connection: Connection) -> int:
    """The store's epoch; raised at take-over and restore."""
    return int(connection.execute(select(meta.c.epoch)).scalar_one())


def raise_epoch(connection: Connection, stamp: Stamp, at_least: int = 0) -> int:
    """The next epoch, or ``at_least`` where that is higher."""
    before = int(connection.execute(select(meta.c.epoch).with_for_update()).scalar_one())
    after = max(before + 1, at_least)
    connection.execute(update(meta).values(epoch=after))
    write(connection, stamp, [{"event": "epoch.raised", "before": before, "after": after}])
    return after


def refuse_frozen(connection: Connection, start: Reservation) -> None:
    """Frozen where the start of an operation would allocate or make anything."""
    found = frozen(connection)
    makes = start.vms or start.allocations or start.layouts
    if found and (makes or {each.verb for each in start.tasks} - GIVING_BACK):
        raise found.refusal()
