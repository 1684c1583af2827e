"""VDI pools in the ledger, users who wait for a desktop, and bookings; closed, never deleted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.codec import dump, load, load_list, printable
from vgpumgr.model.desktop import Booking, DesktopRequest, DesktopRequestRecord, PoolRecord, Rollout
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.pool import PoolSpec
from vgpumgr.store.database.redaction import withhold
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.rows import decodes, not_found
from vgpumgr.store.schema import booking, pool, pool_ask

Row = dict[str, Any]

_POOLS = select(pool).where(pool.c.closed_at.is_(None)).order_by(pool.c.name)
_ASKS = select(pool_ask).where(pool_ask.c.closed_at.is_(None)).order_by(pool_ask.c.since)
_BOOKINGS = select(booking).where(booking.c.closed_at.is_(None)).order_by(booking.c.starts_at)


def list_pools(connection: Connection) -> tuple[PoolRecord, ...]:
    """Pools that there are, by name."""
    return tuple(pool_of(row) for row in connection.execute(_POOLS))


def get_pool(connection: Connection, name: str) -> PoolRecord:
    """One of them; NotFound suggests near names."""
    there = {each.name: each for each in list_pools(connection)}
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
    }
    if record.generation:
        _change(connection, record, values)
    else:
        _insert(connection, record, values)
    if record.closed_at is not None:
        withhold(connection, pool, pool.c.id == record.id)
        _close_asks(connection, stamp, pool_ask.c.pool == record.id)
    write(connection, stamp, [_told(record)])


def raise_pool(connection: Connection, record: PoolRecord) -> None:
    """StaleGeneration unless the pool is as it was read; whoever read it then is late."""
    _change(connection, record, {"generation": record.generation + 1})


def list_asks(connection: Connection) -> tuple[DesktopRequestRecord, ...]:
    """Who waits for a desktop, the longest first."""
    return tuple(ask_of(row) for row in connection.execute(_ASKS))


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


def list_bookings(connection: Connection) -> tuple[Booking, ...]:
    """Bookings that were not cancelled, by when they begin."""
    return tuple(booking_of(row) for row in connection.execute(_BOOKINGS))


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


def _insert(connection: Connection, record: PoolRecord, values: Row) -> None:
    try:
        connection.execute(insert(pool), {"id": record.id, **values})
    except IntegrityError as error:
        raise StaleGeneration(
            f"a pool {record.name} was created meanwhile", next="the same command again"
        ) from error


def _change(connection: Connection, record: PoolRecord, values: Row) -> None:
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


def _told(record: PoolRecord) -> Row:
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
