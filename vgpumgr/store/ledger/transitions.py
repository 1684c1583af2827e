"""Transitions in the ledger: which are legal, and what the end of a task does to its VM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import (
    Connection,
    Delete,
    Table,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.codec import dump, printable
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.operation import (
    OperationMoved,
    OperationState,
    PlaceRefused,
    PlaceServed,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
    Transition,
)
from vgpumgr.model.vm import VmState
from vgpumgr.store.database.redaction import withhold
from vgpumgr.store.ledger import queue, refusals
from vgpumgr.store.ledger.allocations import pass_on
from vgpumgr.store.ledger.audit_trail import (
    Stamp,
    StateChange,
    Values,
    is_one_of,
    of_allocations,
    of_operations,
    of_steps,
    of_tasks,
    of_vms,
)
from vgpumgr.store.ledger.gpus import forget_layouts, settle_layouts
from vgpumgr.store.ledger.hosts import end_membership
from vgpumgr.store.ledger.images import end_copy
from vgpumgr.store.ledger.replaced_disk import put_first_disk
from vgpumgr.store.ledger.vm_backups import end_backup
from vgpumgr.store.ledger.vm_names import rename_vm
from vgpumgr.store.ledger.vms import place, snapshots_text
from vgpumgr.store.schema import allocation, operation, step, task, unit, vm

# Legal transitions, and for each state the statement with its record: built once, run thousands of
# times.

State = TypeVar("State", bound=StrEnum)
Moves = Mapping[State, frozenset[State]]

OPERATION_ENDS = frozenset(
    {OperationState.DONE, OperationState.UNDONE, OperationState.PARTLY, OperationState.FAILED}
)


def _from(to: State, *before: State) -> tuple[State, frozenset[State]]:
    """Into ``to`` from these states, and from itself: saying a thing twice changes nothing."""
    return to, frozenset({to, *before})


STEP_MOVES: Moves[StepState] = dict(
    (
        _from(StepState.PLANNED),
        _from(StepState.INTENT, StepState.PLANNED),
        _from(StepState.DONE, StepState.INTENT),
        _from(StepState.UNDO_INTENT, StepState.INTENT, StepState.DONE),
        _from(StepState.UNDONE, StepState.UNDO_INTENT),
    )
)
_OPEN_TASK = (TaskState.PENDING, TaskState.RUNNING, TaskState.UNDOING)
TASK_MOVES: Moves[TaskState] = dict(
    (
        _from(TaskState.PENDING),
        _from(TaskState.RUNNING, TaskState.PENDING),
        _from(TaskState.UNDOING, TaskState.PENDING, TaskState.RUNNING),
        _from(TaskState.DONE, TaskState.RUNNING),
        _from(TaskState.UNDONE, TaskState.UNDOING),
        _from(TaskState.FAILED, *_OPEN_TASK),
    )
)
_OPEN_OPERATION = (OperationState.RUNNING, OperationState.INTERRUPTED, OperationState.PARTLY)
OPERATION_MOVES: Moves[OperationState] = dict(
    _from(state, *_OPEN_OPERATION) for state in OperationState
)
VM_MOVES: Moves[VmState] = dict(
    (
        _from(VmState.RESERVED),
        _from(VmState.ACTIVE, VmState.RESERVED, VmState.MIGRATING, VmState.DELETING),
        _from(VmState.MIGRATING, VmState.ACTIVE),
        _from(VmState.SHELVED, VmState.RESERVED, VmState.ACTIVE),
        _from(VmState.DELETING, VmState.RESERVED, VmState.ACTIVE, VmState.SHELVED),
        _from(VmState.DELETED, VmState.RESERVED, VmState.ACTIVE, VmState.DELETING),
    )
)


_STEP = (step.c.task == bindparam("in_task"), step.c.seq == bindparam("in_seq"))
# The journal keeps every step; the trail tells of those that were undone.
_TOLD_STEPS = {StepState.UNDONE}
STEPS = {
    to: StateChange(
        update(step)
        .where(*_STEP, is_one_of(step.c.state, before))
        .values(state=to.value, detail=bindparam("to_detail")),
        of_steps(f"step.{to}", *_STEP, step.c.state != to.value) if to in _TOLD_STEPS else None,
    )
    for to, before in STEP_MOVES.items()
}

_TASK = task.c.id == bindparam("in_task")
_TOLD_TASKS = {TaskState.DONE, TaskState.UNDONE, TaskState.FAILED}
TASKS = {
    to: StateChange(
        update(task)
        .where(_TASK, is_one_of(task.c.state, before))
        .values(state=to.value, error=bindparam("to_error")),
        of_tasks(f"task.{to}", _TASK, task.c.state != to.value) if to in _TOLD_TASKS else None,
    )
    for to, before in TASK_MOVES.items()
}

_VM = vm.c.id == bindparam("in_vm")
VMS = {
    to: StateChange(
        update(vm)
        .where(_VM, is_one_of(vm.c.state, before))
        .values(state=to.value, deleted_at=func.coalesce(vm.c.deleted_at, bindparam("to_end"))),
        of_vms(f"vm.{to}", _VM, vm.c.state != to.value),
    )
    for to, before in VM_MOVES.items()
}
# What the user wants of a VM; one that is deleted is wanted no more, which needs no record.
RUNS = {
    wanted: StateChange(
        update(vm).where(_VM).values(running=wanted),
        of_vms(
            "vm.started" if wanted else "vm.stopped",
            _VM,
            vm.c.running.is_not(wanted),
            vm.c.state != VmState.DELETED.value,
        ),
    )
    for wanted in (True, False)
}

_HELD = (allocation.c.vm_id == bindparam("in_vm"), allocation.c.released_at.is_(None))
GIVE_BACK = delete(unit).where(unit.c.allocation_id.in_(select(allocation.c.id).where(*_HELD)))
ALLOCATIONS = {
    to: StateChange(
        update(allocation)
        .where(*_HELD)
        .values(
            state=to.value,
            released_at=bindparam("to_end") if to is AllocationState.RELEASED else None,
        ),
        of_allocations(f"allocation.{to}", *_HELD, allocation.c.state != to.value),
    )
    for to in AllocationState
}

_OPERATION = operation.c.id == bindparam("in_operation")
OPERATIONS = {
    to: StateChange(
        update(operation)
        .where(_OPERATION, is_one_of(operation.c.state, before))
        .values(
            state=to.value,
            ended_at=func.coalesce(operation.c.ended_at, bindparam("to_end"))
            if to in OPERATION_ENDS
            else None,
            summary=func.coalesce(bindparam("to_summary"), operation.c.summary),
            left_until=bindparam("to_left"),
        ),
        of_operations(f"operation.{to}", _OPERATION, operation.c.state != to.value),
    )
    for to, before in OPERATION_MOVES.items()
}


def arrive(connection: Connection, stamp: Stamp, vm_id: str, task: str, *, arrived: bool) -> None:
    """End the move of a VM where it was going, or where it was; a VM that stays is left alone."""
    asked = select(vm.c.name, vm.c.host, vm.c.moving_to).where(vm.c.id == vm_id)
    row = connection.execute(asked).one()
    going = place(row.moving_to)
    if going is None:
        return
    by_task = {"in_task": task, "in_vm": vm_id, **stamp.values}
    if going.host != row.host:
        _keep_only(connection, going.host if arrived else row.host, by_task)
    elif not going.parts_stay:
        _keep_one_place(connection, by_task, new=arrived)
    there: dict[str, object] = {
        "host": going.host,
        "numa_node": going.numa_node,
        "cpus": dump(going.cpus),
        "nic_functions": dump(going.nic_functions),
    }
    if going.spec is not None:
        there |= {"spec": dump(going.spec), "tenant": going.spec.tenant}
    if going.volumes is not None:
        there["volumes"] = dump(going.volumes)
    if going.snapshots is not None:
        there["snapshots"] = snapshots_text(going.snapshots)
    values = {"moving_to": None, **(there if arrived else {})}
    connection.execute(update(vm).where(vm.c.id == vm_id).values(**values))
    stays = going.spec is not None or going.snapshots is not None
    came = _CHANGED if stays else _MOVED
    if arrived and going.spec is not None and going.spec.name != row.name:
        rename_vm(connection, stamp, vm_id, task, going.spec.name)
        return
    connection.execute(came if arrived else _STAYED, by_task)


_MOVED, _STAYED = of_vms("vm.moved", _VM), of_vms("vm.stayed", _VM)
_CHANGED = of_vms("vm.changed", _VM)


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
    if new:
        pass_on(connection, str(by_task["in_vm"]))
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
    if refused := [moved for moved in moves if isinstance(moved, PlaceRefused)]:
        refusals.keep(connection, stamp, refused)
    if served := [moved for moved in moves if isinstance(moved, PlaceServed)]:
        refusals.serve(connection, stamp, served)
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
    if left := [(vm_id, moved) for vm_id, moved in named if _leaves_queue(moved)]:
        queue.follow(connection, stamp, left)
    for vm_id, moved in named:
        if moved.arrived is not None:
            arrive(connection, stamp, vm_id, moved.task, arrived=moved.arrived)
    _layouts(connection, stamp, [moved for moved in moves if moved.layout_gpus])
    for moved in moves:
        if moved.enrolled is not None:
            end_membership(connection, stamp, moved.task, enrolled=moved.enrolled)
        if moved.disk is not None:
            put_first_disk(connection, stamp, moved.vm_id, moved.task, moved.disk)
        if moved.copy is not None:
            end_copy(connection, stamp, moved.task, moved.copy)
        if moved.backup is not None:
            end_backup(connection, stamp, moved.task, moved.backup)


def _layouts(connection: Connection, stamp: Stamp, moves: Iterable[TaskMoved]) -> None:
    for moved in moves:
        ended = [(gpu, moved.task) for gpu in moved.layout_gpus]
        if moved.state is TaskState.UNDONE:
            forget_layouts(connection, stamp, ended, moved.layouts_before)
        else:
            settle_layouts(connection, stamp, ended)


def _has_effect(moved: TaskMoved) -> bool:
    return (moved.vm_state, moved.vm_running, moved.allocations) != (None, None, None)


def _leaves_queue(moved: TaskMoved) -> bool:
    """Was a start undone, or a VM deleted?"""
    undone = moved.vm_state is not None and moved.state is TaskState.UNDONE
    return undone or moved.vm_state is VmState.DELETED


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
