"""Transitions in the ledger: recorded steps, tasks and operations, and their effects on VMs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Delete, Table, bindparam, delete, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, load, load_list, printable
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.operation import (
    OperationMoved,
    PlaceRefused,
    PlaceServed,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
    Transition,
)
from vgpumgr.model.vm import AllocationState, DiskMode, DiskSpec, VmSpec, VmState
from vgpumgr.store.database.redaction import withhold
from vgpumgr.store.ledger import queue, refusals
from vgpumgr.store.ledger.audit_trail import Stamp, of_allocations, of_vms
from vgpumgr.store.ledger.hosts import end_membership
from vgpumgr.store.ledger.images import end as end_copy
from vgpumgr.store.ledger.layouts import settle
from vgpumgr.store.ledger.rows import decodes
from vgpumgr.store.ledger.state_changes import (
    ALLOCATIONS,
    GIVE_BACK,
    OPERATIONS,
    RUNS,
    STEPS,
    TASKS,
    VMS,
    State,
    StateChange,
    Values,
)
from vgpumgr.store.ledger.vms import place
from vgpumgr.store.schema import allocation, operation, step, task, unit, vm


def arrive(connection: Connection, stamp: Stamp, vm_id: str, task: str, *, arrived: bool) -> None:
    """End the move of a VM where it was going, or where it was; a VM that stays is left alone."""
    row = connection.execute(select(vm.c.host, vm.c.moving_to).where(vm.c.id == vm_id)).one()
    going = place(row.moving_to)
    if going is None:
        return
    by_task = {"in_task": task, "in_vm": vm_id, **stamp.values}
    if going.host == row.host:
        _keep_one_place(connection, by_task, new=arrived)
    else:
        _keep_only(connection, going.host if arrived else row.host, by_task)
    there: dict[str, object] = {
        "host": going.host,
        "numa_node": going.numa_node,
        "cpus": dump(going.cpus),
    }
    values = {"moving_to": None, **(there if arrived else {})}
    connection.execute(update(vm).where(vm.c.id == vm_id).values(**values))
    connection.execute(_MOVED if arrived else _STAYED, by_task)


_IT = vm.c.id == bindparam("in_vm")
_MOVED, _STAYED = of_vms("vm.moved", _IT), of_vms("vm.stayed", _IT)
_HELD = (allocation.c.vm_id == bindparam("in_vm"), allocation.c.released_at.is_(None))


def _given_back(*where: ColumnElement[bool]) -> tuple[Delete, StateChange]:
    """Units, then the allocations that held them."""
    held = select(allocation.c.id).where(*where)
    return delete(unit).where(unit.c.allocation_id.in_(held)), StateChange(
        update(allocation)
        .where(*where)
        .values(state=AllocationState.RELEASED.value, released_at=bindparam("in_at")),
        of_allocations("allocation.released", *where),
    )


_GIVE_BACK, _RELEASE = _given_back(*_HELD, allocation.c.host != bindparam("in_host"))
_TAKEN = allocation.c.state == AllocationState.RESERVED.value
_NEW, _OLD = _given_back(*_HELD, _TAKEN), _given_back(*_HELD, ~_TAKEN)


def _keep_one_place(connection: Connection, by_task: Mapping[str, object], *, new: bool) -> None:
    """Of a VM that moves within its host: what it takes is reserved yet, what it had is not."""
    give_back, release = _OLD if new else _NEW
    connection.execute(give_back, by_task)
    release.run(connection, by_task)
    ALLOCATIONS[AllocationState.ACTIVE].run(connection, by_task)


def _keep_only(connection: Connection, host: str, by_task: Mapping[str, object]) -> None:
    """Give back what the VM holds on any other host."""
    values = {**by_task, "in_host": host}
    connection.execute(_GIVE_BACK, values)
    _RELEASE.run(connection, values)
    ALLOCATIONS[AllocationState.ACTIVE].run(connection, values)


_REIMAGED = of_vms("vm.reimaged", vm.c.id == bindparam("in_vm"))


def put_first_disk(
    connection: Connection, stamp: Stamp, vm_id: str, task: str, made: VolumePlan
) -> None:
    """Write the volume that was made into the VM's spec and volumes, in the place of its first."""
    it = vm.c.id == vm_id
    row = connection.execute(
        select(vm.c.id, vm.c.spec, vm.c.volumes).where(it).with_for_update()
    ).one()
    connection.execute(update(vm).where(it).values(**_with(row, made)))
    connection.execute(_REIMAGED, {"in_task": task, "in_vm": vm_id, **stamp.values})


@decodes(vm)
def _with(row: Any, made: VolumePlan) -> dict[str, str]:
    spec = load(VmSpec, row.spec)
    return {
        "spec": dump(replace(spec, disks=(_disk(made), *spec.disks[1:]))),
        "volumes": dump([(made.pool, made.name), *load_list(row.volumes)[1:]]),
    }


def _disk(made: VolumePlan) -> DiskSpec:
    return DiskSpec(
        pool=made.pool,
        size_bytes=made.capacity_bytes,
        mode=DiskMode(made.mode),
        image=made.source,
        image_format=made.source_format or made.format,
        format=made.format,
    )


Item = TypeVar("Item")


def apply_transitions(
    connection: Connection, stamp: Stamp, transitions: Iterable[Transition]
) -> None:
    """Write the transitions; LedgerError when one is not legal.

    Moves of one kind into one state go to the database together: a commit that serves many lanes
    holds hundreds of them. Kinds touch different rows, and states are written in the order of a
    life, so nothing depends on the order of the callers.
    """
    moves = list(transitions)
    _steps(connection, stamp, [moved for moved in moves if isinstance(moved, StepMoved)])
    _tasks(connection, stamp, [moved for moved in moves if isinstance(moved, TaskMoved)])
    refusals.keep(connection, stamp, (moved for moved in moves if isinstance(moved, PlaceRefused)))
    refusals.serve(connection, stamp, [moved for moved in moves if isinstance(moved, PlaceServed)])
    for moved in moves:
        if isinstance(moved, OperationMoved):
            _operation(connection, stamp, moved)


def _steps(connection: Connection, stamp: Stamp, moves: Iterable[StepMoved]) -> None:
    for state, group in _by_state(moves, StepState, lambda moved: moved.state):
        values = [
            {
                "in_task": moved.task,
                "in_seq": moved.seq,
                "to_detail": printable(moved.detail),
                **stamp.values,
            }
            for moved in group
        ]
        for number in _refused(connection, STEPS[state], values):
            moved = group[number]
            where = (step.c.task == moved.task) & (step.c.seq == moved.seq)
            raise _illegal(connection, step, where, f"step {moved.seq} of {moved.task}", state)


def _tasks(connection: Connection, stamp: Stamp, moves: Sequence[TaskMoved]) -> None:
    for state, group in _by_state(moves, TaskState, lambda moved: moved.state):
        values = [
            {"in_task": moved.task, "to_error": printable(moved.error), **stamp.values}
            for moved in group
        ]
        for number in _refused(connection, TASKS[state], values):
            id_ = group[number].task
            raise _illegal(connection, task, task.c.id == id_, f"task {id_}", state)
    with_effect = [moved for moved in moves if _has_effect(moved)]
    named = [(moved.vm_id or _vm_of(connection, moved.task), moved) for moved in with_effect]
    _allocations(connection, stamp, named)
    _vm_states(connection, stamp, named)
    _runs(connection, stamp, named)
    queue.follow(connection, stamp, ((vm_id, moved) for vm_id, moved in named if moved.vm_state))
    for vm_id, moved in named:
        if moved.arrived is not None:
            arrive(connection, stamp, vm_id, moved.task, arrived=moved.arrived)
    ended = ((moved.layout_gpu, moved.task) for moved in moves if moved.layout_gpu)
    settle(connection, stamp, ended)
    for moved in moves:
        if moved.enrolled is not None:
            end_membership(connection, stamp, moved.task, enrolled=moved.enrolled)
        if moved.disk is not None:
            put_first_disk(connection, stamp, moved.vm_id, moved.task, moved.disk)
        if moved.copy is not None:
            end_copy(connection, stamp, moved.task, moved.copy)


def _has_effect(moved: TaskMoved) -> bool:
    return (moved.vm_state, moved.vm_running, moved.allocations) != (None, None, None)


def _vm_of(connection: Connection, task_id: str) -> str:
    return str(connection.execute(select(task.c.vm_id).where(task.c.id == task_id)).scalar_one())


def _allocations(
    connection: Connection, stamp: Stamp, named: Iterable[tuple[str, TaskMoved]]
) -> None:
    """Move what the VMs hold; what was released before stays as history."""
    wanted = [(vm_id, moved, moved.allocations) for vm_id, moved in named if moved.allocations]
    for state, group in _by_state(wanted, AllocationState, lambda each: each[2]):
        values = _of_vms(group, {**stamp.values, "to_end": stamp.at})
        if state is AllocationState.RELEASED:
            connection.execute(GIVE_BACK, values)
        ALLOCATIONS[state].run(connection, values)


def _vm_states(
    connection: Connection, stamp: Stamp, named: Iterable[tuple[str, TaskMoved]]
) -> None:
    wanted = [(vm_id, moved, moved.vm_state) for vm_id, moved in named if moved.vm_state]
    for state, group in _by_state(wanted, VmState, lambda each: each[2]):
        closed = stamp.at if state is VmState.DELETED else None
        values = _of_vms(group, {**stamp.values, "to_end": closed})
        for number in _refused(connection, VMS[state], values):
            id_ = str(values[number]["in_vm"])
            raise _illegal(connection, vm, vm.c.id == id_, f"VM {id_}", state)
        if state is VmState.DELETED:
            withhold(connection, vm, vm.c.id.in_([each["in_vm"] for each in values]))


def _runs(connection: Connection, stamp: Stamp, named: Iterable[tuple[str, TaskMoved]]) -> None:
    for wanted in (False, True):
        group = [(vm_id, moved, moved) for vm_id, moved in named if moved.vm_running is wanted]
        if group:
            RUNS[wanted].run(connection, _of_vms(group, stamp.values))


def _of_vms(group: Iterable[tuple[str, TaskMoved, object]], more: Values) -> list[Values]:
    """Parameters for each VM once, whoever else moves it into the same state."""
    tasks = {vm_id: moved.task for vm_id, moved, _ in group}
    return [{"in_vm": vm_id, "in_task": task_id, **more} for vm_id, task_id in tasks.items()]


def _by_state(
    items: Iterable[Item], states: Iterable[State], state_of: Callable[[Item], State]
) -> Iterator[tuple[State, list[Item]]]:
    """The items grouped by state, in the order in which the states are declared."""
    groups: dict[State, list[Item]] = {}
    for item in items:
        groups.setdefault(state_of(item), []).append(item)
    return ((state, groups[state]) for state in states if state in groups)


def _refused(connection: Connection, move: StateChange, values: Sequence[Values]) -> Iterator[int]:
    """Run a move for many rows; the numbers of those that it did not change.

    Only when some were refused are they tried one by one: a move into the state that a row is in
    already changes nothing.
    """
    if move.run(connection, values) == len(values):
        return
    for number, each in enumerate(values):
        if connection.execute(move.change, each).rowcount != 1:
            yield number


def _operation(connection: Connection, stamp: Stamp, moved: OperationMoved) -> None:
    ended_at = moved.ended_at if moved.ended_at is not None else stamp.at
    values = {
        "in_operation": moved.operation,
        "to_end": ended_at,
        "to_summary": printable(moved.summary) or None,
        "to_left": moved.left_until,
        **stamp.values,
    }
    if OPERATIONS[moved.state].run(connection, values) != 1:
        where = operation.c.id == moved.operation
        raise _illegal(connection, operation, where, f"operation {moved.operation}", moved.state)


def _illegal(
    connection: Connection, table: Table, where: ColumnElement[bool], what: str, to: StrEnum
) -> LedgerError:
    state = connection.execute(select(table.c.state).where(where)).scalar()
    if state is None:
        return LedgerError(f"the ledger has no {what}", next="vgpumgr operation list")
    return LedgerError(
        f"{what} cannot go from {state} to {to}",
        why="another process changed it, or it has ended",
        next="vgpumgr operation list",
    )
