"""Observations in the ledger: what a probe shows of a host, and which known GPU each GPU is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts, GpuState
from vgpumgr.model.health import NO_EVIDENCE, HealthRecord
from vgpumgr.model.host import HostFacts
from vgpumgr.store.ledger.audit_trail import Stamp, StateChange, of_gpus, write
from vgpumgr.store.ledger.gpu_health import dump_health, health_told, load_health, looked_at
from vgpumgr.store.ledger.gpu_texts import dump_gpu, is_text_of
from vgpumgr.store.ledger.gpus import gpu_supply
from vgpumgr.store.ledger.host_texts import dump_host
from vgpumgr.store.ledger.hosts import get_host, host_supply
from vgpumgr.store.schema import MEMORY, gpu, host, unit
from vgpumgr.store.schema.columns import decodes

# Parts of a probe without which a GPU that is not listed may still be there.
_INVENTORY_PARTS = frozenset({"devices", "parents", "helper"})


def observe(
    connection: Connection,
    stamp: Stamp,
    facts: HostFacts,
    units: Mapping[str, int],
    at: float,
    fleet: str,
) -> None:
    """Keep one probe. Conflict (nothing written) when the evidence of a GPU disagrees.

    A GPU that was known stays known by its UUID and serial where a probe could not read them
    (a GPU bound to vfio-pci is invisible to NVML).
    """
    _keep_host(connection, stamp, facts, at, fleet)
    known = known_gpus(connection, facts)
    found = recognise(facts.host, facts.gpus, known)
    try:
        for seen, match in zip(facts.gpus, found, strict=True):
            count = units.get(seen.device, 1)
            before = load_health(match.health) if match else NO_EVIDENCE
            health = looked_at(before, seen, facts, at)
            if match is None:
                _add(connection, stamp, facts.host, seen, count, at, health)
            else:
                _refresh(connection, stamp, facts.host, seen, match, count, health)
    except IntegrityError as error:
        raise Conflict(
            f"another host shows a GPU of {facts.host} at this moment",
            why=str(error.orig),
            next=f"vgpumgr host probe {facts.host}",
        ) from error
    if not _INVENTORY_PARTS & {unknown.part for unknown in facts.unknown}:
        _mark_missing(connection, stamp, facts.host, known, found)


_IS_HOST = (host.c.name == bindparam("in_host")) & host.c.removed_at.is_(None)
_OLD = select(host.c.id, host.c.name, host.c.supply, host.c.facts).where(_IS_HOST).with_for_update()
_KEEP = (
    update(host)
    .where(_IS_HOST)
    .values(last_error="", generation=host.c.generation + bindparam("raised"))
)


def _keep_host(
    connection: Connection, stamp: Stamp, facts: HostFacts, at: float, fleet: str
) -> None:
    old = connection.execute(_OLD, {"in_host": facts.host}).one_or_none()
    if old is None:
        get_host(connection, facts.host)  # NotFound, with near names
        return
    _tell_boot(connection, stamp, facts, old)
    supply = host_supply(facts, fleet)
    connection.execute(
        _KEEP,
        {
            "in_host": facts.host,
            "facts": dump_host(facts),
            "supply": supply,
            "observed_at": at,
            "raised": 0 if old.supply == supply else 1,
        },
    )


def _tell_boot(connection: Connection, stamp: Stamp, facts: HostFacts, old: Any) -> None:
    """A boot takes what a host had in memory: it is told, although nobody changed anything."""
    before = _boot(old) if old.facts else facts.boot_id
    if before != facts.boot_id:
        told = {"event": "host.booted", "host": facts.host, "detail": f"boot {facts.boot_id}"}
        write(connection, stamp, [told])


@decodes(host)
def _boot(row: Any) -> str:
    return str(json.loads(row.facts)["boot_id"])


def _add(
    connection: Connection,
    stamp: Stamp,
    name: str,
    seen: GpuFacts,
    units: int,
    at: float,
    health: HealthRecord,
) -> None:
    id_ = new_gpu_id(connection)
    write(connection, stamp, [_told("gpu.found", name, seen, id_, seen.model)])
    write(connection, stamp, health_told(id_, name, seen.device, NO_EVIDENCE, health))
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
            health=dump_health(health),
        )
    )


def _told(event: str, name: str, seen: GpuFacts, id_: str, detail: str = "") -> dict[str, object]:
    return {"event": event, "host": name, "gpu": id_, "device": seen.device, "detail": detail}


def _refresh(
    connection: Connection,
    stamp: Stamp,
    name: str,
    seen: GpuFacts,
    old: KnownGpu,
    units: int,
    health: HealthRecord,
) -> None:
    seen = replace(seen, uuid=seen.uuid or old.uuid, serial=seen.serial or old.serial)
    units = max(1, units, old.held_slots)
    state = GpuState.HEALTHY if old.state is GpuState.MISSING else old.state
    stands = (old.host, old.units, old.state) == (name, units, state)
    known = (old.uuid, old.serial) == (seen.uuid, seen.serial)
    before = load_health(old.health)
    if stands and known and health is before and is_text_of(old.facts, seen):
        return
    supply = gpu_supply(seen)
    takes = health.state.takes_vms == before.state.takes_vms
    moved = not stands or old.supply != supply or not takes
    write(connection, stamp, health_told(old.id, name, seen.device, before, health))
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
            "facts": dump_gpu(seen),
            "supply": supply,
            "units": units,
            "state": state.value,
            "health": dump_health(health),
            "raised": 1 if moved else 0,
        },
    )


_THIS = (gpu.c.id == bindparam("in_gpu"),)
_SEEN = update(gpu).where(*_THIS).values(generation=gpu.c.generation + bindparam("raised"))
_MISSING = StateChange(
    update(gpu).where(*_THIS).values(state=GpuState.MISSING.value, generation=gpu.c.generation + 1),
    of_gpus("gpu.missing", *_THIS),
)


def _mark_missing(
    connection: Connection,
    stamp: Stamp,
    name: str,
    known: tuple[KnownGpu, ...],
    found: list[KnownGpu | None],
) -> None:
    """A complete probe does not show them. Their allocations stay: looking never frees."""
    seen = {match.id for match in found if match is not None}
    for old in known:
        if old.host == name and old.id not in seen and old.state is GpuState.HEALTHY:
            _MISSING.run(connection, {"in_gpu": old.id, **stamp.values})


# Evidence in the order of its strength: the NVML UUID, the board's serial number, the place (host
# and device). GPUs of one board share its serial (A16, M10), so a serial never overrules two UUIDs
# that differ. Evidence that points at two GPUs stops: a person has to look.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGpu:
    """What the ledger knows of a GPU: its evidence, its state, and what was last written of it.

    ``held_slots`` is one more than its highest held slot. ``facts``, ``supply`` and ``health`` are
    the stored text, to tell whether anything changed.
    """

    id: str
    host: str
    device: str
    uuid: str | None
    serial: str | None
    vendor_device: str
    state: GpuState
    units: int
    held_slots: int = 0
    facts: str = ""
    supply: str = ""
    health: str = ""

    def place(self) -> str:
        """Where it is, in words."""
        return f"{self.device} on {self.host}"


def recognise(
    host: str, seen: Sequence[GpuFacts], known: Iterable[KnownGpu]
) -> list[KnownGpu | None]:
    """The known GPU behind each GPU seen, None for a new one; Conflict when evidence disagrees."""
    known = tuple(known)
    found = [_match(host, each, known) for each in seen]
    owners: dict[str, GpuFacts] = {}
    for each, match in zip(seen, found, strict=True):
        _refuse_twice(host, match, each, owners)
        if match is not None:
            _refuse_elsewhere(host, match, each)
        _refuse_displaced(host, match, each, known)
    return found


def _match(host: str, seen: GpuFacts, known: Sequence[KnownGpu]) -> KnownGpu | None:
    by_uuid = next((k for k in known if seen.uuid and k.uuid == seen.uuid), None)
    by_serial = [k for k in known if seen.serial and k.serial == seen.serial]
    if by_uuid is not None:
        _refuse_other_serial(host, seen, by_uuid, by_serial)
        return by_uuid
    possible = [k for k in by_serial if not _differ(k.uuid, seen.uuid)]
    here = [k for k in known if (k.host, k.device) == (host, seen.device) and _may_be(k, seen)]
    if possible:
        return next((k for k in possible if k in here), possible[0])
    return min(here, key=lambda k: k.state is GpuState.MISSING, default=None)


def _differ(one: str | None, other: str | None) -> bool:
    """Known on both sides, and not the same."""
    return bool(one) and bool(other) and one != other


def _may_be(known: KnownGpu, seen: GpuFacts) -> bool:
    """Does nothing speak against the GPU at its old place being the same one?"""
    return not (
        _differ(known.uuid, seen.uuid)
        or _differ(known.serial, seen.serial)
        or _differ(known.vendor_device, seen.vendor_device)
    )


def _refuse_other_serial(
    host: str, seen: GpuFacts, by_uuid: KnownGpu, by_serial: Sequence[KnownGpu]
) -> None:
    others = [
        k
        for k in by_serial
        if k is not by_uuid and (by_uuid.serial != seen.serial or k.uuid is None)
    ]
    if others:
        raise _conflict(
            host,
            seen,
            f"its UUID {seen.uuid} is that of {by_uuid.id} ({by_uuid.place()}), "
            f"its serial {seen.serial} that of {others[0].id} ({others[0].place()})",
        )


def _refuse_twice(
    host: str, match: KnownGpu | None, seen: GpuFacts, owners: dict[str, GpuFacts]
) -> None:
    key = match.id if match else seen.uuid or seen.device
    first = owners.setdefault(key, seen)
    if first is not seen:
        raise _conflict(
            host,
            seen,
            f"{first.device} and {seen.device} both show the evidence of {key} "
            f"(UUID {seen.uuid}, serial {seen.serial})",
        )


def _refuse_elsewhere(host: str, match: KnownGpu, seen: GpuFacts) -> None:
    if match.host == host:
        return
    if match.state is not GpuState.MISSING:
        why = f"it is {match.id}, which is still seen at {match.place()}"
    elif match.held_slots:
        why = f"it is {match.id}, whose units at {match.place()} are still allocated"
    else:
        return
    raise _conflict(host, seen, why)


def _refuse_displaced(
    host: str, match: KnownGpu | None, seen: GpuFacts, known: Sequence[KnownGpu]
) -> None:
    for old in known:
        at_its_place = (old.host, old.device) == (host, seen.device) and old is not match
        if at_its_place and old.held_slots:
            raise _conflict(
                host,
                seen,
                f"it shows {match.id if match else 'a new GPU'} (UUID {seen.uuid}, serial "
                f"{seen.serial}), but {old.id} (UUID {old.uuid}, serial {old.serial}) "
                "is allocated there",
            )


def _conflict(host: str, seen: GpuFacts, why: str) -> Conflict:
    return Conflict(
        f"cannot tell which GPU {seen.device} on {host} is",
        why=why,
        next=f"vgpumgr gpu list; put the GPU back, or free it, then vgpumgr host probe {host}",
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
        gpu.c.health,
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


def known_gpus(connection: Connection, facts: HostFacts) -> tuple[KnownGpu, ...]:
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
def _known(row: Any, held_slots: int) -> KnownGpu:
    return KnownGpu(
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
        health=row.health,
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
