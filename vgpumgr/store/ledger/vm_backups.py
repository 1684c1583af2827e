"""Backups of VMs in the ledger: their targets, and each from its making until it is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import as_object, dump, from_plain, load_mapping, printable
from vgpumgr.model.errors import Conflict, InUse, NotFound, StaleGeneration
from vgpumgr.model.formats import counted
from vgpumgr.model.operation import Reservation
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm_backup import MOST_TARGETS, BackupState, BackupTarget, VmBackup
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import backup_target, vm_backup
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

Row = dict[str, Any]

_TARGETS = select(backup_target).order_by(backup_target.c.name)
_OPEN = vm_backup.c.gone_at.is_(None)
_BACKUPS = select(vm_backup).where(_OPEN).order_by(vm_backup.c.created_at, vm_backup.c.id)
_OF_TASK = select(vm_backup).where(_OPEN, vm_backup.c.task == bindparam("in_task"))
_IN_COLUMNS = frozenset({"name", "set_at", "set_by"})
_COLUMNS = tuple(each.name for each in fields(VmBackup))
_values = attrgetter(*_COLUMNS)


def list_targets(connection: Connection) -> tuple[BackupTarget, ...]:
    """Every target, by name."""
    return tuple(target_of(row) for row in connection.execute(_TARGETS))


@decodes(backup_target)
def target_of(row: Any) -> BackupTarget:
    """The target of a whole row."""
    plain = {**load_mapping(row.spec), "name": row.name, "set_by": row.set_by}
    return replace(from_plain(BackupTarget, plain), set_at=row.set_at)


def set_target(connection: Connection, stamp: Stamp, wanted: BackupTarget) -> None:
    """Write a target over the one of that name; Conflict where there are too many, or where its
    pool would change under its backups.
    """
    known = {each.name: each for each in list_targets(connection)}
    before = known.get(wanted.name)
    if before is not None and before.pool != wanted.pool:
        _refuse_used(connection, wanted.name, "cannot have another pool")
    plain = {key: each for key, each in as_object(wanted).items() if key not in _IN_COLUMNS}
    spec = dump(plain)
    values = {"spec": spec, "set_at": stamp.at, "set_by": printable(stamp.by)}
    changed = update(backup_target).where(backup_target.c.name == wanted.name).values(values)
    if not connection.execute(changed).rowcount:
        if len(known) >= MOST_TARGETS:
            raise Conflict(
                f"there are {MOST_TARGETS} backup targets already, which is the most",
                next="vgpumgr backup target list",
            )
        _enter(connection, {"name": wanted.name, **values})
    told = {"event": "backup.target-set", "detail": f"{wanted.name}: {spec}"}
    write(connection, stamp, [told])


def _enter(connection: Connection, row: Row) -> None:
    try:
        connection.execute(insert(backup_target), row)
    except IntegrityError as error:
        raise Conflict(
            "another process set the same backup target just now", next="the same again"
        ) from error


def delete_target(connection: Connection, stamp: Stamp, name: str) -> None:
    """Forget a target; NotFound, or InUse while there are backups on it."""
    names = [each.name for each in list_targets(connection)]
    if name not in names:
        raise NotFound(
            f"no backup target {name}",
            why=f"there are: {', '.join(names) or 'none'}",
            next="vgpumgr backup target list",
        )
    _refuse_used(connection, name, "is in use")
    gone = delete(backup_target).where(backup_target.c.name == name)
    if not connection.execute(gone).rowcount:
        raise NotFound(f"no backup target {name}", next="vgpumgr backup target list")
    write(connection, stamp, [{"event": "backup.target-deleted", "detail": name}])


def _refuse_used(connection: Connection, name: str, cannot: str) -> None:
    of_it = select(func.count()).select_from(vm_backup).where(_OPEN, vm_backup.c.target == name)
    if count := connection.execute(of_it).scalar_one():
        raise InUse(
            f"backup target {name} {cannot}",
            why=f"{counted(count, 'backup')} on it",
            next=f"vgpumgr backup list --target {name}",
        )


def list_backups(
    connection: Connection, vm_id: str = "", *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[VmBackup, ...]:
    """Every backup that is not gone, or those of one VM, the oldest first."""
    query = _BACKUPS.where(within)
    if vm_id:
        query = query.where(vm_backup.c.vm_id == vm_id)
    return tuple(map(backup_of, connection.execute(query).all()))


@decodes(vm_backup)
def backup_of(row: Any) -> VmBackup:
    """The backup of a whole row."""
    plain: Row = dict(zip(_COLUMNS, _values(row), strict=True))
    plain["state"], plain["moment"] = BackupState(row.state), DiskMoment(row.moment)
    return VmBackup(**plain)


def _row(backup: VmBackup) -> Row:
    named: Row = dict(zip(_COLUMNS, _values(backup), strict=True))
    return {**named, "state": backup.state.value, "moment": backup.moment.value}


def begin_backups(connection: Connection, stamp: Stamp, start: Reservation) -> None:
    """Write backups that are made, and backups that leave; StaleGeneration where another process
    was faster: with the same one, with one that is to be laid over it, or with the one below.
    """
    for each in start.backups:
        if each.state is BackupState.MAKING:
            _require_target(connection, each)
            _hold_below(connection, each)
            connection.execute(insert(vm_backup), _row(each))
            continue
        there = vm_backup.c.state == BackupState.THERE.value
        leaving = update(vm_backup).where(_OPEN, vm_backup.c.id == each.id, there)
        values = {"state": each.state.value, "task": each.task}
        if connection.execute(leaving.values(values)).rowcount != 1:
            raise StaleGeneration(
                f"backup {each.id[:8]} of {each.vm} is not there any more",
                why="another process was faster",
                next="vgpumgr backup list",
            )
        over = select(vm_backup.c.id).where(_OPEN, vm_backup.c.parent == each.id)
        if connection.execute(over.limit(1)).first() is not None:
            raise StaleGeneration(
                f"backup {each.id[:8]} of {each.vm} is needed",
                why="another process lays one over it at this moment",
                next="vgpumgr backup list",
            )
    operation = start.operation.id
    write(connection, stamp, [{**each, "operation": operation} for each in _told(start.backups)])


def _require_target(connection: Connection, made: VmBackup) -> None:
    """Its target is there, and is the pool that it was planned for."""
    pools = {each.name: each.pool for each in list_targets(connection)}
    if pools.get(made.target) != made.pool:
        raise StaleGeneration(
            f"backup target {made.target} is not what it was",
            why="another process changed or deleted it at this moment",
            next="vgpumgr backup target list",
        )


def _hold_below(connection: Connection, made: VmBackup) -> None:
    """The row of what a backup is laid over, held until the transaction ends: it cannot leave."""
    if not made.parent:
        return
    there = vm_backup.c.state == BackupState.THERE.value
    below = update(vm_backup).where(_OPEN, vm_backup.c.id == made.parent, there)
    if connection.execute(below.values(state=BackupState.THERE.value)).rowcount != 1:
        raise StaleGeneration(
            f"backup {made.parent[:8]} of {made.vm} is not there any more",
            why="another process deletes it, and one was to be laid over it",
            next="vgpumgr backup list",
        )


def end_backup(connection: Connection, stamp: Stamp, task_id: str, state: BackupState) -> None:
    """What the backup that a task is about has become; saying it twice is no error."""
    row = connection.execute(_OF_TASK, {"in_task": task_id}).one_or_none()
    if row is None or row.state == state.value:
        return
    _become(connection, stamp, backup_of(row), state, {"task": task_id})


def _become(
    connection: Connection, stamp: Stamp, backup: VmBackup, state: BackupState, more: Row
) -> None:
    values: Row = {"state": state.value}
    if state is BackupState.GONE:
        values["gone_at"] = stamp.at
    connection.execute(update(vm_backup).where(vm_backup.c.id == backup.id).values(values))
    told = _told([replace(backup, state=state)])
    write(connection, stamp, [{**each, **more} for each in told])


def enter_backup(connection: Connection, stamp: Stamp, backup: VmBackup) -> None:
    """A backup that was found on its target; one that is known already is left alone."""
    known = select(vm_backup.c.id, vm_backup.c.gone_at).where(vm_backup.c.id == backup.id)
    row = connection.execute(known).one_or_none()
    if row is not None and row.gone_at is None:
        return
    if row is not None:
        connection.execute(delete(vm_backup).where(vm_backup.c.id == backup.id))
    connection.execute(insert(vm_backup), _row(replace(backup, state=BackupState.THERE, task="")))
    found = f"{backup.id[:8]} on target {backup.target}"
    told = {"event": "backup.found", "vm": backup.vm, "host": backup.host, "detail": found}
    write(connection, stamp, [told])


def backup_verified(connection: Connection, stamp: Stamp, backup: str, fault: str) -> None:
    """It was compared with its manifest; NotFound for one that is gone."""
    found = _find(connection, backup)
    values = {"verified_at": stamp.at, "fault": printable(fault)}
    connection.execute(update(vm_backup).where(vm_backup.c.id == backup).values(values))
    event = "backup.faulty" if fault else "backup.verified"
    detail = f"{backup[:8]} on target {found.target}{f': {fault}' if fault else ''}"
    told = {"event": event, "vm": found.vm, "host": found.host, "detail": printable(detail)}
    write(connection, stamp, [told])


def backup_lost(connection: Connection, stamp: Stamp, backup: str) -> None:
    """Another hand deleted it; NotFound for one that is gone already."""
    _become(connection, stamp, _find(connection, backup), BackupState.GONE, {})


def _find(connection: Connection, backup: str) -> VmBackup:
    row = connection.execute(select(vm_backup).where(_OPEN, vm_backup.c.id == backup)).first()
    if row is None:
        raise NotFound(f"the ledger has no backup {backup[:8]}", next="vgpumgr backup list")
    found: VmBackup = backup_of(row)
    return found


def _told(backups: Sequence[VmBackup]) -> Iterator[Row]:
    for each in backups:
        detail = f"{each.id[:8]} on target {each.target}"
        yield {
            "event": f"backup.{each.state}",
            "vm": each.vm,
            "host": each.host,
            "detail": detail,
        }
