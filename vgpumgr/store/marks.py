"""Marks that a look at the hosts leaves in the ledger: orphaned allocations, quarantined GPUs.

A mark frees nothing: an orphan holds its units until it is released, a quarantined GPU keeps its
guests and takes no more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from vgpumgr.model.errors import Conflict, NotFound, StaleGeneration
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.vm import AllocationState, VmState
from vgpumgr.store import audit
from vgpumgr.store.audit import Stamp
from vgpumgr.store.codec import printable
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import allocation, gpu, vm

_MARKS = {
    AllocationState.ORPHANED: AllocationState.ACTIVE,
    AllocationState.ACTIVE: AllocationState.ORPHANED,
}


def mark(connection: Connection, ids: Sequence[str], state: AllocationState, stamp: Stamp) -> None:
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
    told = audit.of_allocations(f"allocation.{state.value}", *moving, by_task=False)
    connection.execute(told, stamp.values)
    connection.execute(update(allocation).where(*moving).values(state=state.value))


def quarantine(connection: Connection, gpu_id: str, why: str, stamp: Stamp) -> None:
    """Nothing is placed on the GPU any more, whatever it shows, until :func:`lift`.

    NotFound for an unknown one; one that is quarantined already gets the new reason.
    """
    _set_state(connection, gpu_id, GpuState.QUARANTINED, why, stamp)


def is_quarantined(connection: Connection, gpu_id: str) -> bool:
    """Is it? NotFound for an unknown one."""
    return _state(connection, gpu_id) is GpuState.QUARANTINED


def lift(connection: Connection, gpu_id: str, stamp: Stamp) -> None:
    """A quarantined GPU takes VMs again; Conflict for one that is not quarantined."""
    if _state(connection, gpu_id) is not GpuState.QUARANTINED:
        raise Conflict(f"{gpu_id} is not quarantined", next=f"vgpumgr gpu show {gpu_id}")
    _set_state(connection, gpu_id, GpuState.HEALTHY, "", stamp)


def deleted(connection: Connection, ids: Collection[str]) -> frozenset[str]:
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
    connection: Connection, gpu_id: str, state: GpuState, why: str, stamp: Stamp
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
    audit.write(
        connection, stamp, [{**record, "before": before, "after": before + 1, "detail": why}]
    )
