"""GPUs in the ledger: recognition in a probe, lists, quarantine, and orphaned allocations."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from vgpumgr.model.codec import printable
from vgpumgr.model.errors import Conflict, NotFound, StaleGeneration
from vgpumgr.model.gpu import GpuFacts, GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import AllocationState, VmState
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.ledger.audit_trail import Stamp
from vgpumgr.store.ledger.probe_facts import load_gpu
from vgpumgr.store.ledger.rows import decodes
from vgpumgr.store.schema import MEMORY, allocation, gpu, host, unit, vm

# Evidence in the order of its strength: the NVML UUID, the board's serial number, the place (host
# and device). GPUs of one board share its serial (A16, M10), so a serial never overrules two UUIDs
# that differ. Evidence that points at two GPUs stops: a person has to look.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGpu:
    """What the ledger knows of a GPU: its evidence, its state, and what was last written of it.

    ``held_slots`` is one more than its highest held slot. ``facts`` and ``supply`` are the stored
    text, to tell whether anything changed.
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


def list_gpus(connection: Connection, host: str | None = None) -> tuple[GpuRecord, ...]:
    """GPUs of enrolled hosts (of one with ``host``), by host and device."""
    query = _EVERY if host is None else _OF_HOST
    return tuple(gpu_of(row) for row in connection.execute(query, {"in_host": host}))


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


# A mark frees nothing: an orphan holds its units until it is released, a quarantined GPU keeps its
# guests and takes no more.


_MARKS = {
    AllocationState.ORPHANED: AllocationState.ACTIVE,
    AllocationState.ACTIVE: AllocationState.ORPHANED,
}


def mark_allocations(
    connection: Connection, stamp: Stamp, ids: Sequence[str], state: AllocationState
) -> None:
    """Active allocations become orphaned, or the other way round; those that are so already stay.

    StaleGeneration (nothing is written) when one was released meanwhile, or is only reserved.
    """
    if state not in _MARKS:
        raise ValueError(f"an allocation is marked active or orphaned, not {state}")
    held = (allocation.c.id.in_(ids), allocation.c.released_at.is_(None))
    states = (state.value, _MARKS[state].value)
    of_these = select(allocation.c.id).where(*held, allocation.c.state.in_(states))
    lost = set(ids) - set(connection.execute(of_these).scalars())
    if lost:
        raise StaleGeneration(
            f"allocation {min(lost)} changed since it was read",
            why="it is not held by a VM any more, or not created yet",
            next="vgpumgr heal",
        )
    moving = (*held, allocation.c.state == _MARKS[state].value)
    told = audit_trail.of_allocations(f"allocation.{state.value}", *moving, by_task=False)
    connection.execute(told, stamp.values)
    connection.execute(update(allocation).where(*moving).values(state=state.value))


def quarantine(connection: Connection, stamp: Stamp, gpu: str, why: str) -> None:
    """Nothing is placed on the GPU any more, whatever it shows, until :func:`lift`.

    NotFound for an unknown one; one that is quarantined already gets the new reason.
    """
    _set_state(connection, stamp, gpu, GpuState.QUARANTINED, why)


def is_quarantined(connection: Connection, gpu_id: str) -> bool:
    """Is it? NotFound for an unknown one."""
    return _state(connection, gpu_id) is GpuState.QUARANTINED


def lift_quarantine(connection: Connection, stamp: Stamp, gpu_id: str) -> None:
    """A quarantined GPU takes VMs again; Conflict for one that is not quarantined."""
    if _state(connection, gpu_id) is not GpuState.QUARANTINED:
        raise Conflict(f"{gpu_id} is not quarantined", next=f"vgpumgr gpu show {gpu_id}")
    _set_state(connection, stamp, gpu_id, GpuState.HEALTHY, "")


def deleted_vm_ids(connection: Connection, ids: Collection[str]) -> frozenset[str]:
    """Which of these ids are VMs that were deleted."""
    gone = (vm.c.id.in_(sorted(ids)), vm.c.state == VmState.DELETED.value)
    return frozenset(connection.execute(select(vm.c.id).where(*gone)).scalars())


def _state(connection: Connection, gpu_id: str) -> GpuState:
    query = select(gpu.c.id, gpu.c.state).where(gpu.c.id == gpu_id).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        raise NotFound(f"there is no GPU {gpu_id}", next="vgpumgr gpu list")
    return _state_of(found)


@decodes(gpu)
def _state_of(row: Any) -> GpuState:
    return GpuState(row.state)


def _set_state(
    connection: Connection, stamp: Stamp, gpu_id: str, state: GpuState, why: str
) -> None:
    _state(connection, gpu_id)
    is_it = gpu.c.id == gpu_id
    before, host = connection.execute(select(gpu.c.generation, gpu.c.host).where(is_it)).one()
    connection.execute(
        update(gpu)
        .where(is_it)
        .values(state=state.value, state_why=printable(why), generation=before + 1)
    )
    record: dict[str, object] = {"event": f"gpu.{state.value}", "gpu": gpu_id, "host": host}
    audit_trail.write(
        connection, stamp, [{**record, "before": before, "after": before + 1, "detail": why}]
    )
