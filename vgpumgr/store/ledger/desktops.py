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
    Booking,
    Desktop,
    DesktopRecord,
    DesktopRequestRecord,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PastSession,
    PoolRecord,
)
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.store.database import notify
from vgpumgr.store.database.commits import retried
from vgpumgr.store.ledger import pools
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.ledger.base import LedgerBase
from vgpumgr.store.ledger.pools import end_ask
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
    connection: Connection, record: DesktopRecord, before: DesktopSession | None, stamp: Stamp
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


def list_moves(connection: Connection) -> tuple[LogoffMove, ...]:
    """Those that wait, by VM."""
    return tuple(move_of(row) for row in connection.execute(_LOGOFF_MOVES))


def put_logoff_move(connection: Connection, moves: Iterable[LogoffMove], stamp: Stamp) -> None:
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


def end_logoff_move(connection: Connection, id_: str, outcome: str, stamp: Stamp) -> bool:
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


class PoolLedger(LedgerBase):
    """VDI pools, their desktops, who waits for one, and bookings."""

    def pools(self) -> tuple[PoolRecord, ...]:
        """Pools that were not deleted, by name."""
        with self._database.read() as connection:
            return pools.list_pools(connection)

    def pool(self, name: str) -> PoolRecord:
        """One pool; NotFound suggests near names."""
        with self._database.read() as connection:
            return pools.get_pool(connection, name)

    @retried
    def put_pool(self, pool: PoolRecord) -> None:
        """Write a pool; StaleGeneration where it, or one of that name, is not as it was read."""
        with self._database.write() as connection:
            pools.put_pool(connection, pool, self._stamp())
            notify.notify(connection)

    def desktops(self, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
        """Desktops that there are, by name: all, or those of these names."""
        with self._database.read() as connection:
            return list_desktops(connection, names)

    @retried
    def take_desktops(
        self, moves: Sequence[DesktopRecord], pool: PoolRecord | None = None
    ) -> tuple[DesktopRecord, ...]:
        """Write desktops that are as they were read, and leave the others; what was written.

        With ``pool`` nobody gave desktops of it to users meanwhile, nor changed it: otherwise
        StaleGeneration, and nothing is written.
        """
        with self._database.write() as connection:
            if pool is not None:
                pools.raise_pool(connection, pool)
            taken = take_desktops(connection, moves, self._stamp())
            notify.notify(connection)
            return taken

    def pool_sessions(self, pool: str, limit: int) -> tuple[PastSession, ...]:
        """Who was on which desktop of a pool (its id), the last one first."""
        with self._database.read() as connection:
            return list_sessions(connection, pool, limit)

    def pool_asks(self) -> tuple[DesktopRequestRecord, ...]:
        """Who waits for a desktop, the longest first."""
        with self._database.read() as connection:
            return pools.list_asks(connection)

    @retried
    def ask_desktop(self, ask: DesktopRequestRecord) -> None:
        """Let a user wait; who waits already keeps the place."""
        with self._database.write() as connection:
            pools.enter_ask(connection, ask, self._stamp())
            notify.notify(connection)

    @retried
    def end_ask(self, pool: str, user: str) -> bool:
        """Let a user wait no more for a desktop of a pool (its id); did it wait?"""
        with self._database.write() as connection:
            return pools.end_ask(connection, pool, user, self._stamp())

    def bookings(self) -> tuple[Booking, ...]:
        """Bookings that were not cancelled, by when they begin."""
        with self._database.read() as connection:
            return pools.list_bookings(connection)

    @retried
    def book(self, booking: Booking, tenant: str) -> None:
        """Enter a booking."""
        with self._database.write() as connection:
            pools.book(connection, booking, tenant, self._stamp())

    def logoff_moves(self) -> tuple[LogoffMove, ...]:
        """Moves that wait until a user has logged off, by VM."""
        with self._database.read() as connection:
            return list_moves(connection)

    @retried
    def await_logoff(self, moves: Sequence[LogoffMove]) -> None:
        """Let moves wait; each takes the place of one of the same VM."""
        with self._database.write() as connection:
            put_logoff_move(connection, moves, self._stamp())
            notify.notify(connection)

    @retried
    def end_logoff_move(self, id_: str, outcome: str) -> bool:
        """Let a move (by its id) wait no more; False where it did not any longer."""
        with self._database.write() as connection:
            return end_logoff_move(connection, id_, outcome, self._stamp())

    @retried
    def cancel_booking(self, booking: str) -> None:
        """Cancel a booking by its id; NotFound where there is none."""
        with self._database.write() as connection:
            pools.unbook(connection, booking, self._stamp())
