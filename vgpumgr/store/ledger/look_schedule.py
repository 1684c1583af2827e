"""The schedule of looks at hosts: which are due, when the next is, and looks that showed no change.

Many hosts are one transaction: a cycle of a fleet in which nothing happened is a few commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.host import UnchangedLook
from vgpumgr.store.ledger.hosts import get_host
from vgpumgr.store.schema import host

# No look is put off for longer: what is due later was written under a clock that was wrong.
MOST_AHEAD_S = 3600.0

# A controller that has not looked for so long has ended, or hangs.
KEPT_UP_S = 90.0

_ENROLLED = host.c.removed_at.is_(None)
_NAMED = _ENROLLED & (host.c.name == bindparam("in_host"))


def any_due(connection: Connection, now: float) -> bool:
    """Is a host due? Asked before a write is begun, which SQLite lets only one have."""
    query = select(host.c.id).where(_ENROLLED, _due(now)).limit(1)
    return connection.execute(query).first() is not None


def take_hosts(connection: Connection, now: float, until: float, limit: int) -> tuple[str, ...]:
    """At most ``limit`` hosts whose looks are due longest; their next are due at ``until``.

    Those that another controller takes at this moment are passed over.
    """
    longest = (
        select(host.c.id, host.c.name)
        .where(_ENROLLED, _due(now))
        .order_by(host.c.due_at.asc().nulls_first(), host.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    taken = {row.id: row.name for row in connection.execute(longest)}
    connection.execute(update(host).where(host.c.id.in_(taken)).values(due_at=until))
    return tuple(taken.values())


def host_due(connection: Connection, name: str, at: float) -> None:
    """Its next look is due at ``at`` (Unix seconds); NotFound for a host that is not enrolled."""
    if connection.execute(_DUE, {"in_host": name, "due_at": at}).rowcount != 1:
        get_host(connection, name)


def hosts_due(connection: Connection, due: Mapping[str, float]) -> None:
    """When the next look of each is due (Unix seconds); hosts that are not enrolled are passed
    over.
    """
    # In one order everywhere, so that two controllers never wait for each other.
    rows = [{"in_host": name, "due_at": at} for name, at in sorted(due.items())]
    if rows:
        connection.execute(_DUE, rows)


_DUE = update(host).where(_NAMED).values(due_at=bindparam("due_at"))


def _due(now: float) -> ColumnElement[bool]:
    return or_(host.c.due_at.is_(None), host.c.due_at <= now, host.c.due_at > now + MOST_AHEAD_S)


def looked_again(connection: Connection, looks: Collection[UnchangedLook]) -> frozenset[str]:
    """Keep when hosts were seen that showed no change; the hosts of which it was kept.

    It is where nobody else has observed the host since the look before, and that did not fail.
    """
    by_name = {look.host: look for look in looks}
    rows = connection.execute(_SEEN, {"in_hosts": sorted(by_name)}).all()
    same = {
        row.id: by_name[row.name] for row in rows if row.observed_at == by_name[row.name].before
    }
    if same:
        seen = [{"in_id": id_, "observed_at": look.at} for id_, look in same.items()]
        connection.execute(_SEEN_AGAIN, seen)
    return frozenset(look.host for look in same.values())


_SEEN = (
    select(host.c.id, host.c.name, host.c.observed_at)
    .where(_ENROLLED, host.c.name.in_(bindparam("in_hosts", expanding=True)))
    .where(host.c.last_error == "")
    .order_by(host.c.name)
    .with_for_update()
)
_SEEN_AGAIN = (
    update(host).where(host.c.id == bindparam("in_id")).values(observed_at=bindparam("observed_at"))
)


def looks_kept_up(connection: Connection, now: float) -> frozenset[str]:
    """The hosts that a controller keeps looking at, and has found well."""
    query = select(host.c.name).where(
        _ENROLLED,
        host.c.last_error == "",
        host.c.due_at > now - KEPT_UP_S,
        host.c.due_at <= now + MOST_AHEAD_S,
        host.c.observed_at > now - KEPT_UP_S,
        host.c.observed_at <= now,
    )
    return frozenset(connection.execute(query).scalars())
