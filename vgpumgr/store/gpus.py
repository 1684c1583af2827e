"""GPUs: rows ↔ values."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.store.facts import load_gpu
from vgpumgr.store.recognise import Known
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import MEMORY, gpu, host, unit

# More slots than any board has; they are gone through one by one.
_MOST_UNITS = 4096
_ENROLLED = select(host.c.name).where(host.c.removed_at.is_(None))
_EVERY = (
    select(
        gpu.c.id,
        gpu.c.host,
        gpu.c.facts,
        gpu.c.units,
        gpu.c.state,
        gpu.c.generation,
        gpu.c.state_why,
    )
    .where(gpu.c.host.in_(_ENROLLED))
    .order_by(gpu.c.host, gpu.c.device, gpu.c.id)
)
_OF_HOST = _EVERY.where(gpu.c.host == bindparam("in_host"))


def list_gpus(connection: Connection, name: str | None) -> tuple[GpuRecord, ...]:
    """GPUs of enrolled hosts (of one with ``name``), by host and device."""
    query = _EVERY if name is None else _OF_HOST
    return tuple(gpu_of(row) for row in connection.execute(query, {"in_host": name}))


@decodes(gpu)
def gpu_of(row: Any) -> GpuRecord:
    """The GPU of a row of the columns that lists read."""
    return GpuRecord(
        id=row.id,
        host=row.host,
        facts=load_gpu(row.facts),
        units=min(row.units, _MOST_UNITS),
        state=GpuState(row.state),
        generation=row.generation,
        state_why=row.state_why,
    )


_COULD_BE = (
    select(
        gpu.c.id,
        gpu.c.host,
        gpu.c.device,
        gpu.c.uuid,
        gpu.c.serial,
        gpu.c.vendor_device,
        gpu.c.facts,
        gpu.c.supply,
        gpu.c.state,
        gpu.c.units,
    )
    .where(
        (gpu.c.host == bindparam("in_host"))
        | gpu.c.uuid.in_(bindparam("in_uuids", expanding=True))
        | gpu.c.serial.in_(bindparam("in_serials", expanding=True))
    )
    .order_by(gpu.c.first_seen_at, gpu.c.id)
)
_HIGHEST_SLOTS = (
    select(unit.c.gpu_id, func.max(unit.c.slot))
    .where(unit.c.gpu_id.in_(bindparam("in_gpus", expanding=True)), unit.c.kind == MEMORY)
    .group_by(unit.c.gpu_id)
)


def known_gpus(connection: Connection, facts: HostFacts) -> tuple[Known, ...]:
    """Every GPU that could be one of those seen: by host, UUID or serial."""
    evidence = {
        "in_host": facts.host,
        "in_uuids": [each.uuid for each in facts.gpus if each.uuid],
        "in_serials": [each.serial for each in facts.gpus if each.serial],
    }
    rows = connection.execute(_COULD_BE, evidence).all()
    held = _held_slots(connection, [row.id for row in rows])
    return tuple(_known(row, held.get(row.id, 0)) for row in rows)


@decodes(gpu)
def _known(row: Any, held_slots: int) -> Known:
    return Known(
        id=row.id,
        host=row.host,
        device=row.device,
        uuid=row.uuid,
        serial=row.serial,
        vendor_device=row.vendor_device,
        state=GpuState(row.state),
        units=row.units,
        facts=row.facts,
        supply=row.supply,
        held_slots=held_slots,
    )


def _held_slots(connection: Connection, ids: list[str]) -> dict[str, int]:
    rows = connection.execute(_HIGHEST_SLOTS, {"in_gpus": ids})
    return {gpu_id: highest + 1 for gpu_id, highest in rows}


def new_gpu_id(connection: Connection) -> str:
    """An id that no GPU ever had: ``gpu-`` and 8 hexadecimal digits."""
    while True:
        id_ = f"gpu-{uuid.uuid4().hex[:8]}"
        used = connection.execute(select(gpu.c.id).where(gpu.c.id == id_)).first()
        if used is None:
            return id_
