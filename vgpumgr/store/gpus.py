"""GPUs: rows ↔ values."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Connection, func, select

from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.store.facts import load_gpu
from vgpumgr.store.recognise import Known
from vgpumgr.store.schema import MEMORY, gpu, host, unit


def list_gpus(connection: Connection, name: str | None) -> tuple[GpuRecord, ...]:
    """GPUs of enrolled hosts (of one with ``name``), by host and device."""
    enrolled = select(host.c.name).where(host.c.removed_at.is_(None))
    query = (
        select(
            gpu.c.id,
            gpu.c.host,
            gpu.c.facts,
            gpu.c.units,
            gpu.c.state,
            gpu.c.generation,
            gpu.c.state_why,
        )
        .where(gpu.c.host.in_(enrolled))
        .order_by(gpu.c.host, gpu.c.device, gpu.c.id)
    )
    if name is not None:
        query = query.where(gpu.c.host == name)
    return tuple(_gpu(row) for row in connection.execute(query))


def _gpu(row: Any) -> GpuRecord:
    return GpuRecord(
        id=row.id,
        host=row.host,
        facts=load_gpu(row.facts),
        units=row.units,
        state=GpuState(row.state),
        generation=row.generation,
        state_why=row.state_why,
    )


def known_gpus(connection: Connection, facts: HostFacts) -> tuple[Known, ...]:
    """Every GPU that could be one of those seen: by host, UUID or serial."""
    uuids = [each.uuid for each in facts.gpus if each.uuid]
    serials = [each.serial for each in facts.gpus if each.serial]
    rows = connection.execute(
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
        .where((gpu.c.host == facts.host) | gpu.c.uuid.in_(uuids) | gpu.c.serial.in_(serials))
        .order_by(gpu.c.first_seen_at, gpu.c.id)
    ).all()
    held = _held_slots(connection, [row.id for row in rows])
    return tuple(_known(row, held.get(row.id, 0)) for row in rows)


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
    rows = connection.execute(
        select(unit.c.gpu_id, func.max(unit.c.slot))
        .where(unit.c.gpu_id.in_(ids), unit.c.kind == MEMORY)
        .group_by(unit.c.gpu_id)
    )
    return {gpu_id: highest + 1 for gpu_id, highest in rows}


def new_gpu_id(connection: Connection) -> str:
    """An id that no GPU ever had: ``gpu-`` and 8 hexadecimal digits."""
    while True:
        id_ = f"gpu-{uuid.uuid4().hex[:8]}"
        used = connection.execute(select(gpu.c.id).where(gpu.c.id == id_)).first()
        if used is None:
            return id_
