"""Allocations in the ledger: those that hold units, units that are taken, and orphans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.allocation import Allocation, AllocationState, InstancePart
from vgpumgr.model.codec import dump, load, load_list
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.store.ledger.audit_trail import Stamp, of_allocations
from vgpumgr.store.ledger.row_memo import MOST_TEXTS, RowMemo
from vgpumgr.store.schema import MEMORY, VF, allocation, unit
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

AGAIN = "the same command again: it makes a new plan"


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
).order_by(allocation.c.created_at, allocation.c.vm, allocation.c.id)
HELD = _EVER.where(allocation.c.released_at.is_(None))


def list_allocations(
    connection: Connection,
    host: str | None = None,
    vm_ids: Collection[str] = (),
    *,
    released: bool = False,
    within: ColumnElement[bool] = ALL_ROWS,
) -> tuple[Allocation, ...]:
    """Allocations that hold units, oldest first; with ``released`` the closed ones too. With
    ``host`` those there, and those of these VMs.
    """
    query = _EVER if released else HELD
    if within is not ALL_ROWS:
        query = query.where(within)
    if host is not None:
        of_these = allocation.c.vm_id.in_(sorted(vm_ids))
        query = query.where(or_(allocation.c.host == host, of_these))
    found = tuple(map(allocation_of, connection.execute(query).all()))
    if host is None and within is ALL_ROWS:
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
    more = _more(extra)
    return Allocation(
        id=id_,
        vm_id=vm_id,
        vm=vm,
        host=host,
        gpu=gpu,
        profile=profile,
        framework=framework,
        device=device,
        slots=_list(slots),
        type_id=type_id,
        parent=parent,
        companions=_list(companions),
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


@lru_cache(maxsize=MOST_TEXTS)
def _more(text: str) -> _Extra:
    return load(_Extra, text)


@lru_cache(maxsize=MOST_TEXTS)
def _list(text: str) -> tuple[Any, ...]:
    return tuple(load_list(text))


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


def insert_allocations(
    connection: Connection, allocations: Sequence[Allocation], sharing: Collection[str] = ()
) -> None:
    """Take units; StaleGeneration where one of them, or a device, has an owner. Units that a VM of
    ``sharing`` (ids) holds already stay with what holds them: :func:`pass_on`.
    """
    if not allocations:
        return
    own = _owners(connection, sharing) if sharing else {}
    units = [
        row for each in allocations for row in _units(each) if (each.vm_id, *_key(row)) not in own
    ]
    try:
        connection.execute(insert(allocation), [allocation_row(each) for each in allocations])
        if units:
            connection.execute(insert(unit), units)
    except IntegrityError as error:
        raise StaleGeneration(
            "a unit or device was taken since the plan was made",
            why=f"on one of {some(each.gpu for each in allocations)} ({error.orig})",
            next=AGAIN,
        ) from error


def _owners(connection: Connection, vms: Collection[str]) -> dict[tuple[str, str, str, int], str]:
    """The allocation of each unit that one of these VMs (ids) holds: by VM, GPU, kind and slot."""
    held = select(unit, allocation.c.vm_id).join(allocation)
    rows = connection.execute(held.where(allocation.c.vm_id.in_(sorted(vms))))
    return {(row.vm_id, row.gpu_id, row.kind, row.slot): row.allocation_id for row in rows}


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["gpu_id"], row["kind"], row["slot"]


def pass_on(connection: Connection, vm_id: str) -> None:
    """Give the reserved allocations of a VM the units that they have in common with what it
    held before.
    """
    owners = _owners(connection, [vm_id])
    reserved = allocation.c.state == AllocationState.RESERVED.value
    for held in connection.execute(HELD.where(allocation.c.vm_id == vm_id, reserved)).all():
        for row in _units(allocation_of(held)):
            gpu_id, kind, slot = _key(row)
            if owners.get((vm_id, gpu_id, kind, slot), held.id) != held.id:
                is_it = (unit.c.gpu_id == gpu_id, unit.c.kind == kind, unit.c.slot == slot)
                connection.execute(update(unit).where(*is_it).values(allocation_id=held.id))


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
