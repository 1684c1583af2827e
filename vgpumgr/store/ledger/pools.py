"""VDI pools in the ledger: desktops with their user sessions, users who wait for one, bookings."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, load, load_list, printable
from vgpumgr.model.desktop import (
    Booking,
    Desktop,
    DesktopRecord,
    DesktopRequest,
    DesktopRequestRecord,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PastSession,
    PoolRecord,
    Rollout,
)
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.pool import PoolSpec
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.database.redaction import withhold
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import booking, desktop, pool, pool_ask, pool_session
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

Row = dict[str, Any]

_POOLS = select(pool).where(pool.c.closed_at.is_(None)).order_by(pool.c.name)
_ASKS = select(pool_ask).where(pool_ask.c.closed_at.is_(None)).order_by(pool_ask.c.since)
_BOOKINGS = select(booking).where(booking.c.closed_at.is_(None)).order_by(booking.c.starts_at)


def list_pools(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[PoolRecord, ...]:
    """Pools that there are, by name."""
    return tuple(pool_of(row) for row in connection.execute(_POOLS.where(within)))


def get_pool(
    connection: Connection, name: str, *, within: ColumnElement[bool] = ALL_ROWS
) -> PoolRecord:
    """One of them; NotFound suggests near names."""
    there = {each.name: each for each in list_pools(connection, within=within)}
    if name not in there:
        raise not_found("pool", name, there)
    return there[name]


def put_pool(connection: Connection, stamp: Stamp, record: PoolRecord) -> None:
    """Write a pool: a new one (generation 0), or over what it was."""
    values = {
        "name": record.name,
        "spec": dump(record.spec),
        "rollout": dump(record.rollout) if record.rollout else None,
        "closing": record.closing,
        "leaving": record.leaving,
        "created_at": record.created_at,
        "closed_at": record.closed_at,
        "generation": record.generation + 1,
        "tenant": record.spec.desktop.tenant,
    }
    if record.generation:
        _change_pool(connection, record, values)
    else:
        _insert_pool(connection, record, values)
    if record.closed_at is not None:
        withhold(connection, pool, pool.c.id == record.id)
        _close_asks(connection, stamp, pool_ask.c.pool == record.id)
    write(connection, stamp, [_pool_told(record)])


def raise_pool(connection: Connection, record: PoolRecord) -> None:
    """StaleGeneration unless the pool is as it was read; whoever read it then is late."""
    _change_pool(connection, record, {"generation": record.generation + 1})


def list_asks(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[DesktopRequestRecord, ...]:
    """Who waits for a desktop, the longest first."""
    return tuple(ask_of(row) for row in connection.execute(_ASKS.where(within)))


@decodes(pool_ask)
def ask_of(row: Any) -> DesktopRequestRecord:
    """The wait of a whole row."""
    groups = frozenset(load_list(row.user_groups))
    ask = DesktopRequest(user=row.user_name, since=row.since, groups=groups)
    return DesktopRequestRecord(id=row.id, pool=row.pool, ask=ask)


def enter_ask(connection: Connection, stamp: Stamp, wanted: DesktopRequestRecord) -> None:
    """Let a user wait; one who waits already keeps the place, and is of these groups now."""
    groups, user = dump(tuple(sorted(wanted.ask.groups))), wanted.ask.user
    waits = (pool_ask.c.pool == wanted.pool) & (pool_ask.c.user_name == user)
    again = update(pool_ask).where(waits, pool_ask.c.closed_at.is_(None))
    if connection.execute(again.values(user_groups=groups)).rowcount:
        return
    row = {
        "id": wanted.id,
        "pool": wanted.pool,
        "user_name": user,
        "user_groups": groups,
        "since": wanted.ask.since,
    }
    try:
        connection.execute(insert(pool_ask), row)
    except IntegrityError as error:
        raise StaleGeneration("the same user asked at the same time") from error
    write(connection, stamp, [{"event": "pool.asked", "detail": user}])


def end_ask(connection: Connection, stamp: Stamp, pool_id: str, user: str) -> bool:
    """Let a user wait no more; did it wait?"""
    waits = (pool_ask.c.pool == pool_id) & (pool_ask.c.user_name == user)
    return _close_asks(connection, stamp, waits)


def list_bookings(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[Booking, ...]:
    """Bookings that were not cancelled, by when they begin."""
    return tuple(booking_of(row) for row in connection.execute(_BOOKINGS.where(within)))


@decodes(booking)
def booking_of(row: Any) -> Booking:
    """The booking of a whole row."""
    return Booking(
        id=row.id,
        group=row.user_group,
        profile=row.profile,
        count=row._mapping["count"],
        start=row.starts_at,
        end=row.ends_at,
    )


def book(connection: Connection, stamp: Stamp, wanted: Booking, tenant: str) -> None:
    """Enter a booking."""
    row = {
        "id": wanted.id,
        "user_group": printable(wanted.group),
        "profile": wanted.profile,
        "count": wanted.count,
        "starts_at": wanted.start,
        "ends_at": wanted.end,
        "tenant": tenant,
    }
    connection.execute(insert(booking), row)
    write(connection, stamp, [{"event": "booking.made", "detail": wanted.id}])


def unbook(connection: Connection, stamp: Stamp, booking_id: str) -> None:
    """Cancel a booking; NotFound where there is none."""
    closed = update(booking).where(booking.c.id == booking_id, booking.c.closed_at.is_(None))
    if not connection.execute(closed.values(closed_at=stamp.at)).rowcount:
        raise NotFound(f"no booking {booking_id}", next="vgpumgr booking list")
    write(connection, stamp, [{"event": "booking.cancelled", "detail": booking_id}])


def _insert_pool(connection: Connection, record: PoolRecord, values: Row) -> None:
    try:
        connection.execute(insert(pool), {"id": record.id, **values})
    except IntegrityError as error:
        raise StaleGeneration(
            f"a pool {record.name} was created meanwhile", next="the same command again"
        ) from error


def _change_pool(connection: Connection, record: PoolRecord, values: Row) -> None:
    same = (pool.c.id == record.id) & (pool.c.generation == record.generation)
    changed = update(pool).where(same, pool.c.closed_at.is_(None)).values(**values)
    if not connection.execute(changed).rowcount:
        raise StaleGeneration(
            f"pool {record.name} changed since it was read", next="the same command again"
        )


def _close_asks(connection: Connection, stamp: Stamp, which: Any) -> bool:
    closed = update(pool_ask).where(which, pool_ask.c.closed_at.is_(None))
    ended = connection.execute(closed.values(closed_at=stamp.at).returning(pool_ask.c.user_name))
    users = list(ended.scalars())
    write(connection, stamp, [{"event": "pool.ask-ended", "detail": each} for each in users])
    return bool(users)


def _pool_told(record: PoolRecord) -> Row:
    state = "changed" if record.generation else "made"
    state = "deleted" if record.closed_at is not None else state
    rollout = f", {record.rollout.image} {record.rollout.phase}" if record.rollout else ""
    mood = "leaving" if record.leaving else "closing" if record.closing else record.spec.image
    return {"event": f"pool.{state}", "detail": f"{record.name}: {mood}{rollout}"}


@decodes(pool)
def pool_of(row: Any) -> PoolRecord:
    """The pool of a whole row."""
    return PoolRecord(
        id=row.id,
        spec=load(PoolSpec, row.spec),
        created_at=row.created_at,
        rollout=load(Rollout, row.rollout) if row.rollout else None,
        closing=row.closing,
        leaving=row.leaving,
        closed_at=row.closed_at,
        generation=row.generation,
    )


_OPEN_DESKTOPS = desktop.c.closed_at.is_(None)


def list_desktops(
    connection: Connection, names: Sequence[str] = (), *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[DesktopRecord, ...]:
    """Desktops that there are, by name: all, or those of these names."""
    query = select(desktop).where(_OPEN_DESKTOPS, within).order_by(desktop.c.name)
    if names:
        query = query.where(desktop.c.name.in_(sorted(names)))
    return tuple(desktop_of(row) for row in connection.execute(query))


def list_sessions(
    connection: Connection,
    pool_id: str,
    limit: int,
    since: float = 0.0,
    *,
    within: ColumnElement[bool] = ALL_ROWS,
) -> tuple[PastSession, ...]:
    """Who is on which desktop of a pool, or was after ``since``, the last one first."""
    columns = pool_session.c
    query = select(pool_session).where(columns.pool == pool_id, within)
    if since:
        query = query.where(or_(columns.closed_at.is_(None), columns.closed_at > since))
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
    return tuple(each for each in moves if _move_desktop(connection, stamp, each))


def take_all(connection: Connection, stamp: Stamp, moves: Iterable[DesktopRecord]) -> None:
    """The same, or StaleGeneration where one is not as it was read."""
    for each in moves:
        if not _move_desktop(connection, stamp, each):
            raise StaleGeneration(f"desktop {each.name} changed since it was read")


def _move_desktop(connection: Connection, stamp: Stamp, record: DesktopRecord) -> bool:
    before = _desktop_before(connection, record) if record.generation else None
    if record.generation and before is None:
        return False
    values = {**_desktop_values(record), "generation": record.generation + 1}
    if before is not None:
        connection.execute(update(desktop).where(desktop.c.id == record.id).values(**values))
    elif not _insert_desktop(connection, {"id": record.id, "pool": record.pool, **values}):
        return False
    _follow_session(connection, stamp, record, before.desktop.session if before else None)
    if told := _desktop_told(record, before):
        write(connection, stamp, [told])
    return True


def _desktop_before(connection: Connection, record: DesktopRecord) -> DesktopRecord | None:
    """The row as it is, locked; None where it is not what was read."""
    same = (desktop.c.id == record.id) & (desktop.c.generation == record.generation)
    row = connection.execute(
        select(desktop).where(same, _OPEN_DESKTOPS).with_for_update()
    ).one_or_none()
    return desktop_of(row) if row is not None else None


def _insert_desktop(connection: Connection, row: Row) -> bool:
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


def _follow_session(
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


def _desktop_values(record: DesktopRecord) -> Row:
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
