"""Refusals by GPUs and hosts in the ledger: written with the task, closed by a success."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import printable
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import PlaceRefused, PlaceServed
from vgpumgr.model.refusal import Refusal
from vgpumgr.store.ledger import gpu_health, gpus, hosts
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import refusal
from vgpumgr.store.schema.columns import decodes

_OPEN = refusal.c.closed_at.is_(None)
_ORDER = refusal.c.id
_STANDING = select(refusal).where(_OPEN).order_by(_ORDER)


def list_refusals(
    connection: Connection, now: float, operation: str | None = None
) -> tuple[Refusal, ...]:
    """Those that no success has closed, the oldest first; of an operation (its whole id) all.

    ``now`` (Unix seconds) is what the rest that is left is told by.
    """
    if operation is None:
        query = _STANDING
    else:
        query = select(refusal).where(refusal.c.operation == operation).order_by(_ORDER)
    return tuple(refusal_of(row, now) for row in connection.execute(query))


def keep(connection: Connection, stamp: Stamp, moves: Iterable[PlaceRefused]) -> None:
    """Write refusals down, or that one counts now; those that set a GPU aside quarantine it, a
    host is cordoned.
    """
    for each in moves:
        it = each.refusal
        if not _counts_now(connection, it):
            connection.execute(insert(refusal).values(**_row(it)))
            write(connection, stamp, [_told(it)])
        if each.sets_aside:
            _set_aside(connection, stamp, it, each.sets_aside)


def _counts_now(connection: Connection, it: Refusal) -> bool:
    """Was it written before, and counts from now on?"""
    same = (refusal.c.task == it.task) & (refusal.c.host == it.host) & (refusal.c.gpu == it.gpu)
    changed = update(refusal).where(same).values(counts=it.counts, until=it.until)
    return connection.execute(changed).rowcount > 0


def _row(it: Refusal) -> dict[str, object]:
    return {
        "at": it.at,
        "host": it.host,
        "gpu": it.gpu,
        "vm": it.vm,
        "operation": it.operation,
        "task": it.task,
        "what": printable(it.what),
        "why": printable(it.why),
        "counts": it.counts,
        "if_taken": it.if_taken,
        "until": it.until,
    }


def _told(it: Refusal) -> dict[str, object]:
    return {
        "event": "gpu.refused" if it.gpu else "host.refused",
        "host": it.host,
        "gpu": it.gpu,
        "vm": it.vm,
        "operation": it.operation,
        "task": it.task,
        "detail": f"{it.what}: {it.why}",
    }


def _set_aside(connection: Connection, stamp: Stamp, it: Refusal, why: str) -> None:
    if it.gpu:
        gpus.quarantine(connection, stamp, it.gpu, why)
        return
    # Where the host left the fleet or was changed meanwhile, the next refusal sets it aside.
    with suppress(NotFound, StaleGeneration):
        record = hosts.get_host(connection, it.host)
        if not record.cordoned:
            hosts.update_host(connection, stamp, replace(record, cordoned=True))


def serve(connection: Connection, stamp: Stamp, moves: Collection[PlaceServed]) -> None:
    """Close what these hosts and GPUs refused before: they do what they are asked."""
    standing = connection.execute(_STANDING).all()
    if not standing:
        return
    places = {(each.host, "") for each in moves if each.host}
    served = frozenset().union(*(each.gpus for each in moves))
    done = [row for row in standing if row.gpu in served or (row.host, row.gpu) in places]
    _close(connection, stamp, done, "it carried out a request")


def forgive(connection: Connection, stamp: Stamp, *, host: str = "", gpu: str = "") -> int:
    """Close the refusals of a GPU, or of a host itself, as an operator asks; how many."""
    of_it: ColumnElement[bool] = refusal.c.gpu == gpu
    if not gpu:
        of_it &= refusal.c.host == host
    rows = connection.execute(_STANDING.where(of_it)).all()
    _close(connection, stamp, rows, "by request")
    return len(rows)


def change_host(connection: Connection, stamp: Stamp, record: HostRecord) -> None:
    """Write what an operator sets on a host; who uncordons it forgives its refusals."""
    before = hosts.get_host(connection, record.name)
    hosts.update_host(connection, stamp, record)
    if before.cordoned and not record.cordoned:
        forgive(connection, stamp, host=record.name)


def lift(connection: Connection, stamp: Stamp, gpu: str) -> None:
    """Use a GPU again that is quarantined, in back-off, or out for what was reported of it;
    Conflict where it is none of these.
    """
    forgiven = bool(forgive(connection, stamp, gpu=gpu))
    forgotten = gpu_health.lift(connection, stamp, gpu)
    if not (forgiven or forgotten) or gpus.is_quarantined(connection, gpu):
        gpus.lift_quarantine(connection, stamp, gpu)


def _close(connection: Connection, stamp: Stamp, rows: Collection[Any], why: str) -> None:
    if not rows:
        return
    ids = [row.id for row in rows]
    connection.execute(update(refusal).where(refusal.c.id.in_(ids)).values(closed_at=stamp.at))
    places = dict.fromkeys((row.host, row.gpu) for row in rows)
    write(
        connection,
        stamp,
        [
            {
                "event": "gpu.served" if gpu else "host.served",
                "host": host,
                "gpu": gpu,
                "detail": f"its refusals are cleared: {why}",
            }
            for host, gpu in places
        ],
    )


@decodes(refusal)
def refusal_of(row: Any, now: float) -> Refusal:
    """The refusal of a whole row, read at ``now`` (Unix seconds)."""
    return Refusal(
        at=row.at,
        host=row.host,
        gpu=row.gpu,
        vm=row.vm,
        operation=row.operation,
        task=row.task,
        what=row.what,
        why=row.why,
        counts=row.counts,
        if_taken=row.if_taken,
        until=row.until,
        left_s=max(0.0, row.until - now) if row.closed_at is None else 0.0,
    )
