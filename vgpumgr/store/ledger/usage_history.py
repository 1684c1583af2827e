"""What reports of use are made of: what was held of GPUs, and when each was in the fleet."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

from sqlalchemy import Connection, select, type_coerce
from sqlalchemy.types import NullType

from vgpumgr.model.codec import load_list
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.showback import FOREVER, GpuPresence, HeldRows, Span, UsageHistory, microseconds
from vgpumgr.store.ledger.gpu_texts import load_gpu
from vgpumgr.store.ledger.gpus import MOST_UNITS
from vgpumgr.store.schema import allocation, audit, desktop, gpu, pool, vm
from vgpumgr.store.schema.columns import decodes

# A million rows are common: times are checked all at once, and put in order by the report.
_HELD = select(
    allocation.c.vm_id,
    allocation.c.vm,
    vm.c.tenant,
    allocation.c.gpu,
    allocation.c.profile,
    allocation.c.slots,
    type_coerce(allocation.c.created_at, NullType),
    type_coerce(allocation.c.released_at, NullType),
).join(vm, vm.c.id == allocation.c.vm_id)
_GPUS = select(
    gpu.c.id, gpu.c.uuid, gpu.c.serial, gpu.c.facts, gpu.c.units, gpu.c.first_seen_at
).order_by(gpu.c.host, gpu.c.device, gpu.c.id)
_GONE = "gpu.missing"
# After these it is there. All are written by looks and by a host's removal, in no operation.
_THERE = ("gpu.found", "gpu.healthy", "gpu.moved")
_CAME_AND_WENT = (
    select(audit.c.gpu, audit.c.at, audit.c.event)
    .where(audit.c.operation == "", audit.c.event.in_((_GONE, *_THERE)))
    .order_by(audit.c.seq)
)
_POOLS = select(desktop.c.vm_id, pool.c.name).join(pool, pool.c.id == desktop.c.pool)


def usage_history(connection: Connection, since: float, until: float) -> UsageHistory:
    """What was held at any time between (Unix seconds), in any order, and when GPUs were there."""
    ended = allocation.c.released_at
    query = _HELD.where(allocation.c.created_at < until, ended.is_(None) | (ended > since))
    in_pools = _POOLS.where(desktop.c.vm_id.is_not(None))
    return UsageHistory(
        held=_rows(connection.execute(query).all()),
        gpus=_gpus(connection),
        pools={row.vm_id: row.name for row in connection.execute(in_pools)},
    )


def _rows(found: Sequence[Any]) -> HeldRows:
    if not found:
        return HeldRows()
    vm_ids, vms, tenants, gpus, profiles, slots, since, until = zip(*found, strict=True)
    texts = [
        "" if profile == PASSTHROUGH_PROFILE else text
        for profile, text in zip(profiles, slots, strict=True)
    ]
    number = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    return HeldRows(
        vm_ids=vm_ids,
        vms=vms,
        tenants=tenants,
        gpus=gpus,
        profiles=profiles,
        shapes=[_shape(text) for text in number],
        shape_of=list(map(number.__getitem__, texts)),
        since=_times(since, float, int),
        until=_times(until, float, int, NoneType),
    )


@decodes(allocation)
def _times(column: Sequence[Any], *kinds: type) -> Sequence[Any]:
    """The column as it is; Damaged where something in it is none of these."""
    if others := {*map(type, column)} - {*kinds}:
        raise TypeError(f"a time is of the type {others.pop().__name__}")
    return column


@decodes(allocation)
def _shape(text: str) -> tuple[int, ...] | None:
    """Its slots; None for the whole GPU."""
    return tuple(map(operator.index, load_list(text))) if text else None


def _gpus(connection: Connection) -> tuple[GpuPresence, ...]:
    """Every GPU that the ledger knows, those of hosts that were removed too."""
    told: dict[str, list[tuple[float, bool]]] = {}
    for gpu_id, at, event in connection.execute(_CAME_AND_WENT):
        told.setdefault(gpu_id, []).append((at, event != _GONE))
    return tuple(_presence(row, told.get(row.id, ())) for row in connection.execute(_GPUS))


@decodes(gpu)
def _presence(row: Any, told: Iterable[tuple[float, bool]]) -> GpuPresence:
    return GpuPresence(
        gpu=row.id,
        model=load_gpu(row.facts, row.uuid, row.serial).model,
        units=max(1, min(row.units, MOST_UNITS)),
        present=tuple(_spans(microseconds(row.first_seen_at), told)),
    )


def _spans(first: int, told: Iterable[tuple[float, bool]]) -> Iterable[Span]:
    """From when it was first seen; what comes earlier in the trail but has a later time (clocks
    differ) ends nothing before it began.
    """
    begun: int | None = first
    last = first
    for at, there in told:
        last = max(last, microseconds(at))
        if begun is not None and not there:
            yield Span(begun, last)
            begun = None
        elif begun is None and there:
            begun = last
    if begun is not None:
        yield Span(begun, FOREVER)
