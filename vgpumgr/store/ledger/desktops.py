"""Desktops of pools in the ledger, their user sessions, and moves that wait for a logoff."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.codec import dump, load, load_list, printable
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.desktop import (
    Desktop,
    DesktopRecord,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PastSession,
    PoolRecord,
)
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.pools import end_ask, raise_pool
from vgpumgr.store.ledger.rows import decodes
from vgpumgr.store.schema import desktop, logoff_move, pool_session

Row = dict[str, Any]

_OPEN_DESKTOPS = desktop.c.closed_at.is_(None)


def list_desktops(connection: Connection, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
    """Desktops that there are, by name: all, or those of these names."""
    query = select(desktop).where(_OPEN_DESKTOPS).order_by(desktop.c.name)
    if names:
        query = query.where(desktop.c.name.in_(sorted(names)))
    return tuple(desktop_of(row) for row in connection.execute(query))


def list_sessions(connection: Connection, pool_id: str, limit: int) -> tuple[PastSession, ...]:
    """Who was on which desktop of a pool, the last one first."""
    query = select(pool_session).where(pool_session.c.pool == pool_id)
    newest = query.order_by(pool_session.c.since.desc(), pool_session.c.id).limit(limit)
    return tuple(session_of(row) for row in connection.execute(newest))


@decodes(pool_session)
def session_of(row: Any) -> PastSession:
    """The session of a whole row."""
    return PastSession(
        desktop=row.name,
        user=row.user_name,
        since=row.since,
        booking=row.booking,
        why=row.why,
        closed_at=row.closed_at,
    )


def take_desktops(
    connection: Connection,
    stamp: Stamp,
    moves: Sequence[DesktopRecord],
    pool: PoolRecord | None = None,
) -> tuple[DesktopRecord, ...]:
    """Write rows that are as they were read, and leave the others out; what was written.

    With ``pool`` StaleGeneration, and nothing is written, where the pool is not as it was read.
    """
    if pool is not None:
        raise_pool(connection, pool)
    return tuple(each for each in moves if _move(connection, stamp, each))


def take_all(connection: Connection, stamp: Stamp, moves: Iterable[DesktopRecord]) -> None:
    """The same, or StaleGeneration where one is not as it was read."""
    for each in moves:
        if not _move(connection, stamp, each):
            raise StaleGeneration(f"desktop {each.name} changed since it was read")


def _move(connection: Connection, stamp: Stamp, record: DesktopRecord) -> bool:
    before = _before(connection, record) if record.generation else None
    if record.generation and before is None:
        return False
    values = {**_values(record), "generation": record.generation + 1}
    if before is not None:
        connection.execute(update(desktop).where(desktop.c.id == record.id).values(**values))
    elif not _insert(connection, {"id": record.id, "pool": record.pool, **values}):
        return False
    _follow(connection, stamp, record, before.desktop.session if before else None)
    if told := _desktop_told(record, before):
        write(connection, stamp, [told])
    return True


def _before(connection: Connection, record: DesktopRecord) -> DesktopRecord | None:
    """The row as it is, locked; None where it is not what was read."""
    same = (desktop.c.id == record.id) & (desktop.c.generation == record.generation)
    row = connection.execute(
        select(desktop).where(same, _OPEN_DESKTOPS).with_for_update()
    ).one_or_none()
    return desktop_of(row) if row is not None else None


def _insert(connection: Connection, row: Row) -> bool:
    """Whether there was no desktop of that name."""
    if connection.execute(
        select(desktop.c.id).where(_OPEN_DESKTOPS, desktop.c.name == row["name"])
    ).first():
        return False
    try:
        connection.execute(insert(desktop), row)
    except IntegrityError as error:
        raise StaleGeneration(f"a desktop {row['name']} was created meanwhile") from error
    return True


def _follow(
    connection: Connection, stamp: Stamp, record: DesktopRecord, before: DesktopSession | None
) -> None:
    """Sessions that began and ended with it; who got a desktop waits for none any more."""
    now = record.desktop.session
    if _key(before) == _key(now):
        return
    if before is not None:
        ended = update(pool_session).where(
            pool_session.c.desktop == record.id, pool_session.c.closed_at.is_(None)
        )
        connection.execute(ended.values(closed_at=stamp.at, why=printable(record.why)))
        write(connection, stamp, [_of_session("ended", record, before.user)])
    if now is not None:
        row = {
            "id": str(uuid.uuid4()),
            "pool": record.pool,
            "desktop": record.id,
            "name": record.name,
            "user_name": printable(now.user),
            "booking": now.booking,
            "since": now.since,
            "why": "",
        }
        connection.execute(insert(pool_session), row)
        write(connection, stamp, [_of_session("begun", record, now.user)])
        end_ask(connection, stamp, record.pool, now.user)


def _key(session: DesktopSession | None) -> tuple[str, float] | None:
    return (session.user, session.since) if session else None


def _of_session(what: str, record: DesktopRecord, user: str) -> Row:
    return {"event": f"session.{what}", "vm": record.name, "detail": user}


def _desktop_told(record: DesktopRecord, before: DesktopRecord | None) -> Row | None:
    """Of every change but that a user is there still."""
    if before is not None and _gist(before) == _gist(record):
        return None
    state = "closed" if record.closed_at is not None else str(record.desktop.state)
    return {
        "event": f"desktop.{state}",
        "vm": record.name,
        "host": record.desktop.host,
        "before": record.generation or None,
        "after": record.generation + 1,
        "detail": ": ".join(part for part in (record.doing or "", record.why) if part),
    }


def _gist(record: DesktopRecord) -> tuple[object, ...]:
    it = record.desktop
    own = (it.state, it.image, it.owner, it.host, it.failures)
    return (*own, record.doing, record.vm_id, record.closed_at)


def _values(record: DesktopRecord) -> Row:
    it = record.desktop
    return {
        "name": it.name,
        "vm_id": record.vm_id or None,
        "doing": record.doing.value if record.doing else "",
        "state": it.state.value,
        "image": it.image,
        "since": it.since,
        "host": it.host,
        "owner": printable(it.owner),
        "session": dump(it.session) if it.session else None,
        "stained": it.stained,
        "failures": it.failures,
        "why": printable(record.why),
        "closed_at": record.closed_at,
    }


@decodes(desktop)
def desktop_of(row: Any) -> DesktopRecord:
    """The desktop of a whole row."""
    return DesktopRecord(
        id=row.id,
        pool=row.pool,
        desktop=Desktop(
            name=row.name,
            state=DesktopState(row.state),
            image=row.image,
            since=row.since,
            host=row.host,
            owner=row.owner,
            session=load(DesktopSession, row.session) if row.session else None,
            stained=row.stained,
            failures=row.failures,
        ),
        doing=DesktopVerb(row.doing) if row.doing else None,
        vm_id=row.vm_id or "",
        why=row.why,
        closed_at=row.closed_at,
        generation=row.generation,
    )


_OPEN_MOVES = logoff_move.c.closed_at.is_(None)
_LOGOFF_MOVES = select(logoff_move).where(_OPEN_MOVES).order_by(logoff_move.c.vm)
_END = (
    update(logoff_move)
    .where(_OPEN_MOVES)
    .values(closed_at=bindparam("in_at"), outcome=bindparam("in_outcome"))
)
_END_ID = _END.where(logoff_move.c.id == bindparam("in_id")).returning(logoff_move.c.vm)
_END_VM = _END.where(logoff_move.c.vm_id == bindparam("in_vm"))


def list_logoff_moves(connection: Connection) -> tuple[LogoffMove, ...]:
    """Those that wait, by VM."""
    return tuple(move_of(row) for row in connection.execute(_LOGOFF_MOVES))


def await_logoff(connection: Connection, stamp: Stamp, moves: Iterable[LogoffMove]) -> None:
    """Let moves wait; each takes the place of one of the same VM."""
    for each in moves:
        again = {"in_vm": each.vm_id, "in_at": stamp.at, "in_outcome": "replaced by a new plan"}
        connection.execute(_END_VM, again)
        row = {
            "id": each.id,
            "vm_id": each.vm_id,
            "vm": each.vm,
            "user_name": printable(each.user),
            "host": each.host,
            "leaves": dump(each.leaves),
            "takes": dump(each.takes),
            "why": printable(each.why),
            "asked_at": each.asked_at,
            "closed_at": None,
            "outcome": "",
        }
        connection.execute(insert(logoff_move), row)
        write(connection, stamp, [_move_told("move.waits", each.vm, each.host, f"for {each.user}")])


def end_logoff_move(connection: Connection, stamp: Stamp, id_: str, outcome: str) -> bool:
    """Let a move wait no more; False where it did not any longer."""
    values = {"in_id": id_, "in_at": stamp.at, "in_outcome": printable(outcome)}
    name = connection.execute(_END_ID, values).scalar_one_or_none()
    if name is not None:
        write(connection, stamp, [_move_told("move.ended", name, "", outcome)])
    return name is not None


def _move_told(event: str, vm: str, host: str, detail: str) -> dict[str, Any]:
    return {"event": event, "vm": vm, "host": host, "detail": detail}


@decodes(logoff_move)
def move_of(row: Any) -> LogoffMove:
    """The move of a whole row."""
    return LogoffMove(
        id=row.id,
        vm_id=row.vm_id,
        vm=row.vm,
        user=row.user_name,
        host=row.host,
        leaves=tuple(load_list(row.leaves)),
        takes=tuple(load_list(row.takes)),
        why=row.why,
        asked_at=row.asked_at,
    )
