"""Keep what a probe saw: refresh facts, give new GPUs a key, mark those that are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.store.audit import Stamp, of_gpus, write
from vgpumgr.store.codec import dump
from vgpumgr.store.facts import dump_gpu, without_detail
from vgpumgr.store.gpus import known_gpus, new_gpu_id
from vgpumgr.store.hosts import get_host
from vgpumgr.store.recognise import Known, recognise
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import gpu, host
from vgpumgr.store.statements import Move
from vgpumgr.store.supply import gpu_supply, host_supply

# Parts of a probe without which a GPU that is not listed may still be there.
_INVENTORY_PARTS = frozenset({"devices", "parents", "helper"})


def observe(
    connection: Connection,
    facts: HostFacts,
    units: Mapping[str, int],
    at: float,
    fleet: str,
    stamp: Stamp,
) -> None:
    """Keep one probe. Conflict (nothing written) when the evidence of a GPU disagrees.

    A GPU that was known stays known by its UUID and serial where a probe could not read them
    (a GPU bound to vfio-pci is invisible to NVML).
    """
    _keep_host(connection, facts, at, fleet, stamp)
    known = known_gpus(connection, facts)
    found = recognise(facts.host, facts.gpus, known)
    try:
        for seen, match in zip(facts.gpus, found, strict=True):
            count = units.get(seen.device, 1)
            if match is None:
                _add(connection, facts.host, seen, count, at, stamp)
            else:
                _refresh(connection, facts.host, seen, match, count, stamp)
    except IntegrityError as error:
        raise Conflict(
            f"another host shows a GPU of {facts.host} at this moment",
            why=str(error.orig),
            next=f"vgpumgr host probe {facts.host}",
        ) from error
    if not _INVENTORY_PARTS & {unknown.part for unknown in facts.unknown}:
        _mark_missing(connection, facts.host, known, found, stamp)


_IS_HOST = (host.c.name == bindparam("in_host")) & host.c.removed_at.is_(None)
_OLD = select(host.c.id, host.c.name, host.c.supply, host.c.facts).where(_IS_HOST).with_for_update()
_KEEP = (
    update(host)
    .where(_IS_HOST)
    .values(last_error="", generation=host.c.generation + bindparam("raised"))
)


def _keep_host(
    connection: Connection, facts: HostFacts, at: float, fleet: str, stamp: Stamp
) -> None:
    old = connection.execute(_OLD, {"in_host": facts.host}).one_or_none()
    if old is None:
        get_host(connection, facts.host)  # NotFound, with near names
        return
    _tell_boot(connection, facts, old, stamp)
    supply = host_supply(facts, fleet)
    connection.execute(
        _KEEP,
        {
            "in_host": facts.host,
            "facts": dump(without_detail(facts)),
            "supply": supply,
            "observed_at": at,
            "raised": 0 if old.supply == supply else 1,
        },
    )


def _tell_boot(connection: Connection, facts: HostFacts, old: Any, stamp: Stamp) -> None:
    """A boot takes what a host had in memory: it is told, although nobody changed anything."""
    before = _boot(old) if old.facts else facts.boot_id
    if before != facts.boot_id:
        told = {"event": "host.booted", "host": facts.host, "detail": f"boot {facts.boot_id}"}
        write(connection, stamp, [told])


@decodes(host)
def _boot(row: Any) -> str:
    return str(json.loads(row.facts)["boot_id"])


def _add(
    connection: Connection, name: str, seen: GpuFacts, units: int, at: float, stamp: Stamp
) -> None:
    id_ = new_gpu_id(connection)
    write(connection, stamp, [_told("gpu.found", name, seen, id_, seen.model)])
    connection.execute(
        insert(gpu).values(
            id=id_,
            host=name,
            device=seen.device,
            uuid=seen.uuid,
            serial=seen.serial,
            vendor_device=seen.vendor_device,
            facts=dump_gpu(seen),
            supply=gpu_supply(seen),
            units=max(1, units),
            state=GpuState.HEALTHY.value,
            generation=1,
            first_seen_at=at,
        )
    )


def _told(event: str, name: str, seen: GpuFacts, id_: str, detail: str = "") -> dict[str, object]:
    return {"event": event, "host": name, "gpu": id_, "device": seen.device, "detail": detail}


def _refresh(
    connection: Connection, name: str, seen: GpuFacts, old: Known, units: int, stamp: Stamp
) -> None:
    seen = replace(seen, uuid=seen.uuid or old.uuid, serial=seen.serial or old.serial)
    facts, supply = dump_gpu(seen), gpu_supply(seen)
    units = max(1, units, old.held_slots)
    state = GpuState.HEALTHY if old.state is GpuState.MISSING else old.state
    moved = (old.host, old.supply, old.units, old.state) != (name, supply, units, state)
    if not moved and facts == old.facts:
        return
    if (old.host, old.device) != (name, seen.device):
        write(connection, stamp, [_told("gpu.moved", name, seen, old.id, f"from {old.place()}")])
    elif state is not old.state:
        write(connection, stamp, [_told(f"gpu.{state}", name, seen, old.id)])
    connection.execute(
        _SEEN,
        {
            "in_gpu": old.id,
            "host": name,
            "device": seen.device,
            "uuid": seen.uuid,
            "serial": seen.serial,
            "vendor_device": seen.vendor_device or old.vendor_device,
            "facts": facts,
            "supply": supply,
            "units": units,
            "state": state.value,
            "raised": 1 if moved else 0,
        },
    )


_THIS = (gpu.c.id == bindparam("in_gpu"),)
_SEEN = update(gpu).where(*_THIS).values(generation=gpu.c.generation + bindparam("raised"))
_MISSING = Move(
    update(gpu).where(*_THIS).values(state=GpuState.MISSING.value, generation=gpu.c.generation + 1),
    of_gpus("gpu.missing", *_THIS),
)


def _mark_missing(
    connection: Connection,
    name: str,
    known: tuple[Known, ...],
    found: list[Known | None],
    stamp: Stamp,
) -> None:
    """A complete probe does not show them. Their allocations stay: looking never frees."""
    seen = {match.id for match in found if match is not None}
    for old in known:
        if old.host == name and old.id not in seen and old.state is GpuState.HEALTHY:
            _MISSING.run(connection, {"in_gpu": old.id, **stamp.values})
