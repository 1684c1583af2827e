"""Users' profile disks in the ledger, which referees that each is attached to one VM at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.profile_disk import ProfileDisk
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import profile_disk
from vgpumgr.store.schema.columns import decodes

_ALL = select(profile_disk).order_by(profile_disk.c.pool, profile_disk.c.user_name)


def list_profile_disks(connection: Connection) -> tuple[ProfileDisk, ...]:
    """Every profile disk."""
    return tuple(profile_disk_of(row) for row in connection.execute(_ALL))


@decodes(profile_disk)
def profile_disk_of(row: Any) -> ProfileDisk:
    """The disk of a whole row."""
    return ProfileDisk(
        tenant=row.tenant,
        pool=row.pool,
        user=row.user_name,
        storage_pool=row.storage_pool,
        volume=row.volume,
        size_bytes=row.size_bytes,
        keep=row.keep,
        made=row.made,
        vm_id=row.vm_id or "",
        generation=row.generation,
    )


def put_profile_disk(connection: Connection, stamp: Stamp, disk: ProfileDisk) -> ProfileDisk:
    """Write one that is as it was read; the table holds no VM twice."""
    values = {
        "storage_pool": disk.storage_pool,
        "volume": disk.volume,
        "size_bytes": disk.size_bytes,
        "keep": disk.keep,
        "made": disk.made,
        "vm_id": disk.vm_id or None,
        "generation": disk.generation + 1,
    }
    try:
        if disk.generation:
            done = connection.execute(update(profile_disk).where(*_is(disk)).values(values))
            written = bool(done.rowcount)
        else:
            owner = {"tenant": disk.tenant, "pool": disk.pool, "user_name": disk.user}
            connection.execute(insert(profile_disk).values({**owner, **values}))
            written = True
    except IntegrityError as error:
        raise _stale(disk) from error
    if not written:
        raise _stale(disk)
    event = "profile.disk-attached" if disk.vm_id else "profile.disk-detached"
    _tell(connection, stamp, event, disk)
    return replace(disk, generation=disk.generation + 1)


def forget_profile_disk(connection: Connection, stamp: Stamp, disk: ProfileDisk) -> None:
    """Forget one whose volume is deleted."""
    if not connection.execute(delete(profile_disk).where(*_is(disk))).rowcount:
        raise _stale(disk)
    _tell(connection, stamp, "profile.disk-deleted", disk)


def _is(disk: ProfileDisk) -> tuple[ColumnElement[bool], ...]:
    return (
        profile_disk.c.tenant == disk.tenant,
        profile_disk.c.pool == disk.pool,
        profile_disk.c.user_name == disk.user,
        profile_disk.c.generation == disk.generation,
    )


def _tell(connection: Connection, stamp: Stamp, event: str, disk: ProfileDisk) -> None:
    where = f" on VM {disk.vm_id}" if disk.vm_id else ""
    detail = f"{disk.user} in pool {disk.pool}: {disk.storage_pool}/{disk.volume}{where}"
    write(connection, stamp, [{"event": event, "detail": detail}])


def _stale(disk: ProfileDisk) -> StaleGeneration:
    return StaleGeneration(
        f"the profile disk of {disk.user} in pool {disk.pool} changed meanwhile",
        next=f"vgpumgr pool show {disk.pool}",
    )
