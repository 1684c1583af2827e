"""VMs and allocations in the ledger: lists, look-ups, and changes of records."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.codec import dump, load, load_list
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.vm import (
    Allocation,
    AllocationState,
    InstancePart,
    VmPlace,
    VmRecord,
    VmSpec,
    VmState,
)
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.database.redaction import owe
from vgpumgr.store.ledger.audit_trail import Stamp, of_allocations
from vgpumgr.store.ledger.row_memo import RowMemo
from vgpumgr.store.schema import (
    MEMORY,
    VF,
    allocation,
    queue,
    unit,
    vm,
)
from vgpumgr.store.schema.columns import decodes

AGAIN = "the same command again: it makes a new plan"


_EVERY_VM = select(
    vm.c.id,
    vm.c.spec,
    vm.c.host,
    vm.c.state,
    vm.c.running,
    vm.c.generation,
    vm.c.numa_node,
    vm.c.cpus,
    vm.c.volumes,
    vm.c.created_at,
    vm.c.moving_to,
    vm.c.definition,
)
_VM = _EVERY_VM.where(vm.c.deleted_at.is_(None))
OPEN_VMS = _VM.order_by(vm.c.name)
_NAMED = _VM.where(vm.c.name == bindparam("in_vm"))
_WAITS = select(queue.c.id).where(queue.c.closed_at.is_(None), queue.c.name == bindparam("in_vm"))


def list_vms(
    connection: Connection, host: str | None = None, ids: Collection[str] = ()
) -> tuple[VmRecord, ...]:
    """VMs that are not deleted, by name; with ``host`` those that are there or move there, and
    those of these ids.
    """
    if host is None:
        every = tuple(map(vm_of, connection.execute(OPEN_VMS).all()))
        _VMS.listed(len(every))
        return every
    wanted = or_(vm.c.host == host, vm.c.moving_to.is_not(None), vm.c.id.in_(sorted(ids)))
    found = (vm_of(row) for row in connection.execute(OPEN_VMS.where(wanted)))
    return tuple(each for each in found if host in _hosts(each) or each.id in ids)


def _hosts(record: VmRecord) -> tuple[str, ...]:
    return (record.host, record.moving_to.host) if record.moving_to else (record.host,)


def get_vm(connection: Connection, name: str) -> VmRecord:
    """One VM; NotFound says where it waits, or suggests near names."""
    row = connection.execute(_NAMED, {"in_vm": name}).one_or_none()
    if row is None:
        if connection.execute(_WAITS, {"in_vm": name}).first() is not None:
            raise NotFound(
                f"there is no VM {name} yet",
                why="it waits in the queue for room",
                next=f"vgpumgr queue show {name}; vgpumgr queue cancel {name} ends that",
            )
        names = connection.execute(select(vm.c.name).where(vm.c.deleted_at.is_(None))).scalars()
        raise not_found("vm", name, names)
    return vm_of(row)


def vms_ever(connection: Connection, ids: Collection[str]) -> tuple[VmRecord, ...]:
    """The VMs of these ids, deleted ones too."""
    found = connection.execute(_EVERY_VM.where(vm.c.id.in_(sorted(ids))).order_by(vm.c.name))
    return tuple(vm_of(row) for row in found)


@decodes(vm)
def vm_of(row: Any) -> VmRecord:
    """The VM of a row of ``OPEN_VMS``."""
    return _VMS.of(row[0], *row)


def _vm_record(
    id_: str,
    spec: str,
    host: str,
    state: str,
    running: bool,
    generation: int,
    numa_node: int | None,
    cpus: str,
    volumes: str,
    created_at: float,
    moving_to: str | None,
    definition: str,
) -> VmRecord:
    return VmRecord(
        id=id_,
        spec=load(VmSpec, spec),
        host=host,
        state=VmState(state),
        running=running,
        generation=generation,
        numa_node=numa_node,
        cpus=tuple(load_list(cpus)),
        volumes=tuple((pool, name) for pool, name in load_list(volumes)),
        created_at=created_at,
        moving_to=place(moving_to),
        definition=definition,
    )


_VMS = RowMemo(_vm_record)


def place(text: str | None) -> VmPlace | None:
    """Where a VM is moving; None while it stays."""
    return None if text is None else load(VmPlace, text)


def vm_row(record: VmRecord) -> dict[str, object]:
    """The row of a VM that is not deleted."""
    return {
        "id": record.id,
        "name": record.name,
        "host": record.host,
        "state": record.state.value,
        "running": record.running,
        "generation": record.generation,
        "spec": dump(record.spec),
        "numa_node": record.numa_node,
        "cpus": dump(record.cpus),
        "volumes": dump(record.volumes),
        "created_at": record.created_at,
        "moving_to": dump(record.moving_to) if record.moving_to is not None else None,
        "definition": record.definition,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extra:
    """What few allocations have, in one column."""

    vf: int | None = None
    instance: InstancePart | None = None
    placement_id: int | None = None
    frame_rate_limiter: bool | None = None
    partition: int | None = None
    memory_mib: int | None = None


_EVER = select(
    allocation.c.id,
    allocation.c.vm_id,
    allocation.c.vm,
    allocation.c.host,
    allocation.c.gpu,
    allocation.c.profile,
    allocation.c.framework,
    allocation.c.device,
    allocation.c.slots,
    allocation.c.type_id,
    allocation.c.parent,
    allocation.c.companions,
    allocation.c.state,
    allocation.c.generation,
    allocation.c.created_at,
    allocation.c.extra,
).order_by(allocation.c.created_at, allocation.c.id)
HELD = _EVER.where(allocation.c.released_at.is_(None))


def list_allocations(
    connection: Connection,
    host: str | None = None,
    vm_ids: Collection[str] = (),
    *,
    released: bool = False,
) -> tuple[Allocation, ...]:
    """Allocations that hold units, oldest first; with ``released`` the closed ones too. With
    ``host`` those there, and those of these VMs.
    """
    query = _EVER if released else HELD
    if host is not None:
        of_these = allocation.c.vm_id.in_(sorted(vm_ids))
        query = query.where(or_(allocation.c.host == host, of_these))
    found = tuple(map(allocation_of, connection.execute(query).all()))
    if host is None:
        _ALLOCATIONS.listed(len(found))
    return found


@decodes(allocation)
def allocation_of(row: Any) -> Allocation:
    """The allocation of a row of ``HELD``."""
    return _ALLOCATIONS.of(row[0], *row)


def _allocation(
    id_: str,
    vm_id: str,
    vm: str,
    host: str,
    gpu: str,
    profile: str,
    framework: str,
    device: str,
    slots: str,
    type_id: str,
    parent: str,
    companions: str,
    state: str,
    generation: int,
    created_at: float,
    extra: str,
) -> Allocation:
    more = load(_Extra, extra)
    return Allocation(
        id=id_,
        vm_id=vm_id,
        vm=vm,
        host=host,
        gpu=gpu,
        profile=profile,
        framework=framework,
        device=device,
        slots=tuple(load_list(slots)),
        type_id=type_id,
        parent=parent,
        companions=tuple(load_list(companions)),
        vf=more.vf,
        instance=more.instance,
        placement_id=more.placement_id,
        frame_rate_limiter=more.frame_rate_limiter,
        partition=more.partition,
        memory_mib=more.memory_mib,
        state=AllocationState(state),
        generation=generation,
        created_at=created_at,
    )


_ALLOCATIONS = RowMemo(_allocation)


def allocation_row(record: Allocation) -> dict[str, object]:
    """The row of an allocation that holds its units."""
    return {
        "id": record.id,
        "vm_id": record.vm_id,
        "vm": record.vm,
        "host": record.host,
        "gpu": record.gpu,
        "profile": record.profile,
        "framework": record.framework,
        "device": record.device,
        "slots": dump(record.slots),
        "type_id": record.type_id,
        "parent": record.parent,
        "companions": dump(record.companions),
        "state": record.state.value,
        "generation": record.generation,
        "created_at": record.created_at,
        "extra": dump({name: value for name, value in _extra(record) if value is not None}),
    }


def _extra(record: Allocation) -> list[tuple[str, object]]:
    return [(field.name, getattr(record, field.name)) for field in fields(_Extra)]


def deleted_vms(connection: Connection, ids: Collection[str]) -> frozenset[str]:
    """Which of these ids are VMs that were deleted."""
    gone = (vm.c.id.in_(sorted(ids)), vm.c.state == VmState.DELETED.value)
    return frozenset(connection.execute(select(vm.c.id).where(*gone)).scalars())


Row = dict[str, Any]

_IT = vm.c.id == bindparam("in_vm")
_THERE = select(vm).where(_IT, vm.c.deleted_at.is_(None)).with_for_update()
_CHANGE = update(vm).where(_IT)


def change_vms(connection: Connection, changed: Sequence[VmRecord]) -> list[Row]:
    """Write changed records where nobody else changed them since they were read; what the trail
    tells of each.

    A record with a new spec carries the generation after the one it was made from (its domain's
    metadata names it); one whose spec is as it was carries the one it was read with. Both leave
    the row one generation higher.
    """
    return [_change(connection, record) for record in changed]


def _change(connection: Connection, record: VmRecord) -> Row:
    row = connection.execute(_THERE, {"in_vm": record.id}).one_or_none()
    values = vm_row(record)
    spec = _as_today(row) if row is not None else ""
    same_spec = spec == values["spec"]
    read_at = record.generation if same_spec else record.generation - 1
    if row is None or row.generation != read_at:
        raise StaleGeneration(
            f"VM {record.name} changed since it was read",
            why="it was deleted" if row is None else f"it is at generation {row.generation}",
            next=AGAIN,
        )
    values["generation"] = row.generation + 1
    connection.execute(_CHANGE, {"in_vm": record.id, **values})
    if record.spec.cloud_init is not None:
        owe(connection)
    return {
        "event": f"vm.{record.state}" if record.state.value != row.state else "vm.changed",
        "vm": record.name,
        "host": record.host,
        "before": row.generation,
        "after": row.generation + 1,
        "detail": "; ".join(_words(row, spec, values)),
    }


@decodes(vm)
def _as_today(row: Any) -> str:
    """The spec as it would be written now: an older vgpumgr left out what it did not know."""
    return dump(load(VmSpec, row.spec))


def _words(row: Any, spec: str, values: Row) -> Iterator[str]:
    """What changed: fields of the spec by name, and the place."""
    before, after = json.loads(spec), json.loads(values["spec"])
    fields = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if fields:
        yield f"changed: {', '.join(fields)}"
    if row.host != values["host"]:
        yield f"from {row.host}"
    if values["moving_to"] and not row.moving_to:
        yield f"to {json.loads(values['moving_to'])['host']}"


def insert_allocations(connection: Connection, allocations: Sequence[Allocation]) -> None:
    """Take units; StaleGeneration where one of them, or a device, has an owner."""
    if not allocations:
        return
    units = (unit_row for each in allocations for unit_row in _units(each))
    try:
        connection.execute(insert(allocation), [allocation_row(each) for each in allocations])
        connection.execute(insert(unit), list(units))
    except IntegrityError as error:
        raise StaleGeneration(
            "a unit or device was taken since the plan was made",
            why=f"on one of {some(each.gpu for each in allocations)} ({error.orig})",
            next=AGAIN,
        ) from error


def _units(taken: Allocation) -> Iterator[dict[str, Any]]:
    """One row per memory slot, and one for the virtual function."""
    for slot in taken.slots:
        yield {"gpu_id": taken.gpu, "kind": MEMORY, "slot": slot, "allocation_id": taken.id}
    if taken.vf is not None:
        yield {"gpu_id": taken.gpu, "kind": VF, "slot": taken.vf, "allocation_id": taken.id}


def some(names: Iterable[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    every = sorted(set(names))
    rest = len(every) - most
    return ", ".join(every[:most]) + (f" and {rest} more" if rest > 0 else "")


_MARKS = {
    AllocationState.ORPHANED: AllocationState.ACTIVE,
    AllocationState.ACTIVE: AllocationState.ORPHANED,
}


def mark_allocations(
    connection: Connection, stamp: Stamp, ids: Sequence[str], state: AllocationState
) -> None:
    """Active allocations become orphaned, or the other way round; those that are so already stay,
    and an orphan holds its units until it is released.

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
    told = of_allocations(f"allocation.{state.value}", *moving, by_task=False)
    connection.execute(told, stamp.values)
    connection.execute(update(allocation).where(*moving).values(state=state.value))
