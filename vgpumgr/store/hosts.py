"""Hosts: enrol, change, remove."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.store.audit import Stamp, of_gpus, write
from vgpumgr.store.codec import dump, printable
from vgpumgr.store.facts import without_detail
from vgpumgr.store.host_rows import from_row, settings
from vgpumgr.store.host_use import refuse_used
from vgpumgr.store.host_words import changed_event, changed_words
from vgpumgr.store.images import forget_host
from vgpumgr.store.near import not_found
from vgpumgr.store.schema import gpu, host
from vgpumgr.store.statements import Move

_OPEN = host.c.removed_at.is_(None)
_EVERY = select(host).where(_OPEN).order_by(host.c.name)
_NAMED = select(host).where(_OPEN, host.c.name == bindparam("in_host"))


def list_hosts(connection: Connection) -> tuple[HostRecord, ...]:
    """Every enrolled host, by name."""
    return tuple(from_row(row) for row in connection.execute(_EVERY))


def get_host(connection: Connection, name: str) -> HostRecord:
    """One host; NotFound suggests near names."""
    row = connection.execute(_NAMED, {"in_host": name}).one_or_none()
    if row is None:
        names = connection.execute(select(host.c.name).where(_OPEN)).scalars()
        raise not_found("host", name, names)
    return from_row(row)


def add_host(connection: Connection, record: HostRecord, stamp: Stamp) -> None:
    """Enrol; Conflict when the name or address is taken."""
    _refuse_taken(connection, record)
    try:
        connection.execute(
            insert(host).values(
                name=record.name,
                address=record.address,
                settings=settings(record),
                generation=record.generation,
                facts=dump(without_detail(record.facts)) if record.facts is not None else None,
                supply="",
                observed_at=record.observed_at,
                last_error=printable(record.last_error),
            )
        )
    except IntegrityError as error:
        raise Conflict(
            f"host {record.name} or its address was enrolled meanwhile",
            next="vgpumgr host list",
        ) from error
    detail = changed_words(HostRecord(name=record.name, address=""), record)
    joining = record.membership is Membership.JOINING
    event = "host.joining" if joining else "host.added"
    tell(connection, stamp, event, record, None, record.generation, detail)


def tell(
    connection: Connection,
    stamp: Stamp,
    event: str,
    record: HostRecord,
    before: int | None,
    after: int | None,
    detail: str = "",
) -> None:
    """Write what became of a host into the trail; ``before`` and ``after`` are generations."""
    told = {"event": event, "host": record.name, "before": before, "after": after}
    write(connection, stamp, [{**told, "detail": detail}])


def _refuse_taken(connection: Connection, record: HostRecord) -> None:
    taken = (host.c.name == record.name) | (host.c.address == record.address)
    for row in connection.execute(select(host.c.name, host.c.address).where(_OPEN, taken)):
        if row.name == record.name:
            raise Conflict(
                f"host {row.name} is already enrolled",
                why=f"its address is {row.address}",
                next=f"vgpumgr host show {row.name}, or choose another name",
            )
        raise Conflict(
            f"{record.address} is already enrolled",
            why=f"as host {row.name}",
            next=f"vgpumgr host show {row.name}",
        )


def update_host(connection: Connection, record: HostRecord, stamp: Stamp) -> None:
    """Write what an operator sets, if the row is still at ``record.generation``; raise it.

    What was observed stays. NotFound, StaleGeneration, or Conflict when the address is taken.
    """
    current = get_host(connection, record.name)
    try:
        changed = connection.execute(
            update(host)
            .where(_OPEN, host.c.name == record.name, host.c.generation == record.generation)
            .values(
                address=record.address,
                settings=settings(record),
                generation=record.generation + 1,
            )
        )
    except IntegrityError as error:
        raise Conflict(f"{record.address} is already enrolled", next="vgpumgr host list") from error
    if changed.rowcount != 1:
        raise StaleGeneration(
            f"host {record.name} changed since it was read",
            why=f"generation {current.generation} now, {record.generation} when read",
            next="the same command again",
        )
    read = record.generation
    what = changed_words(current, record)
    tell(connection, stamp, changed_event(current, record), record, read, read + 1, what)


def remove_host(connection: Connection, name: str, stamp: Stamp) -> None:
    """Close the host's row; Conflict while a VM or an allocation is on it."""
    record = get_host(connection, name)
    refuse_used(connection, name)
    connection.execute(update(host).where(_OPEN, host.c.name == name).values(removed_at=stamp.at))
    tell(connection, stamp, "host.removed", record, record.generation, None)
    there = (gpu.c.host == name, gpu.c.state != GpuState.MISSING.value)
    gone = update(gpu).values(state=GpuState.MISSING.value, generation=gpu.c.generation + 1)
    Move(gone.where(*there), of_gpus("gpu.missing", *there)).run(connection, stamp.values)
    forget_host(connection, name, stamp)


def observation_failed(connection: Connection, name: str, error: str) -> None:
    """Remember why a probe failed; NotFound for a host that is not enrolled."""
    changed = connection.execute(
        update(host).where(_OPEN, host.c.name == name).values(last_error=printable(error))
    )
    if changed.rowcount != 1:
        get_host(connection, name)
