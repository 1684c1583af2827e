"""Whose turn it is to be looked at: several controllers share the hosts of one ledger."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.store.hosts import get_host
from vgpumgr.store.schema import host

# No look is put off for longer: what is due later was written under a clock that was wrong.
MOST_AHEAD_S = 3600.0

_ENROLLED = host.c.removed_at.is_(None)


def any_due(connection: Connection, now: float) -> bool:
    """Is a host due? Asked before a write is begun, which SQLite lets only one have."""
    query = select(host.c.id).where(_ENROLLED, _due(now)).limit(1)
    return connection.execute(query).first() is not None


def take_host(connection: Connection, now: float, until: float) -> str | None:
    """The host whose look is due longest; its next one is due at ``until`` from now on.

    One that another controller takes at this moment is passed over.
    """
    longest = (
        select(host.c.id)
        .where(_ENROLLED, _due(now))
        .order_by(host.c.due_at.asc().nulls_first(), host.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    taken = update(host).where(host.c.id == longest).values(due_at=until).returning(host.c.name)
    return connection.execute(taken).scalar_one_or_none()


def host_due(connection: Connection, name: str, at: float) -> None:
    """Its next look is due at ``at`` (Unix seconds); NotFound for a host that is not enrolled."""
    due = update(host).where(_ENROLLED, host.c.name == name).values(due_at=at)
    if connection.execute(due).rowcount != 1:
        get_host(connection, name)


def _due(now: float) -> ColumnElement[bool]:
    return or_(host.c.due_at.is_(None), host.c.due_at <= now, host.c.due_at > now + MOST_AHEAD_S)
