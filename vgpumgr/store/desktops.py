"""Desktops of pools: rows ↔ values, compared and moved, and the sessions that follow from that."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.pool import Desktop, DesktopRecord, DesktopState, Do, PastSession, Session
from vgpumgr.store.audit import Stamp, write
from vgpumgr.store.codec import dump, load, printable
from vgpumgr.store.pools import end_ask
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import desktop, pool_session

Row = dict[str, Any]

_OPEN = desktop.c.closed_at.is_(None)


def list_desktops(connection: Connection, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
    """Desktops that there are, by name: all, or those of these names."""
    query = select(desktop).where(_OPEN).order_by(desktop.c.name)
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


def take(
    connection: Connection, moves: Iterable[DesktopRecord], stamp: Stamp
) -> tuple[DesktopRecord, ...]:
    """Write rows that are as they were read, and leave the others out; what was written."""
    return tuple(each for each in moves if _move(connection, each, stamp))


def take_all(connection: Connection, moves: Iterable[DesktopRecord], stamp: Stamp) -> None:
    """The same, or StaleGeneration where one is not as it was read."""
    for each in moves:
        if not _move(connection, each, stamp):
            raise StaleGeneration(f"desktop {each.name} changed since it was read")


def _move(connection: Connection, record: DesktopRecord, stamp: Stamp) -> bool:
    before = _before(connection, record) if record.generation else None
    if record.generation and before is None:
        return False
    values = {**_values(record), "generation": record.generation + 1}
    if before is not None:
        connection.execute(update(desktop).where(desktop.c.id == record.id).values(**values))
    elif not _insert(connection, {"id": record.id, "pool": record.pool, **values}):
        return False
    _follow(connection, record, before.desktop.session if before else None, stamp)
    if told := _told(record, before):
        write(connection, stamp, [told])
    return True


def _before(connection: Connection, record: DesktopRecord) -> DesktopRecord | None:
    """The row as it is, locked; None where it is not what was read."""
    same = (desktop.c.id == record.id) & (desktop.c.generation == record.generation)
    row = connection.execute(select(desktop).where(same, _OPEN).with_for_update()).one_or_none()
    return desktop_of(row) if row is not None else None


def _insert(connection: Connection, row: Row) -> bool:
    """Whether there was no desktop of that name."""
    if connection.execute(select(desktop.c.id).where(_OPEN, desktop.c.name == row["name"])).first():
        return False
    try:
        connection.execute(insert(desktop), row)
    except IntegrityError as error:
        raise StaleGeneration(f"a desktop {row['name']} was created meanwhile") from error
    return True


def _follow(
    connection: Connection, record: DesktopRecord, before: Session | None, stamp: Stamp
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
        end_ask(connection, record.pool, now.user, stamp)


def _key(session: Session | None) -> tuple[str, float] | None:
    return (session.user, session.since) if session else None


def _of_session(what: str, record: DesktopRecord, user: str) -> Row:
    return {"event": f"session.{what}", "vm": record.name, "detail": user}


def _told(record: DesktopRecord, before: DesktopRecord | None) -> Row | None:
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
            session=load(Session, row.session) if row.session else None,
            stained=row.stained,
            failures=row.failures,
        ),
        doing=Do(row.doing) if row.doing else None,
        vm_id=row.vm_id or "",
        why=row.why,
        closed_at=row.closed_at,
        generation=row.generation,
    )
