"""Unfinished tasks after a crash, a cut call or Ctrl-C, and the operations that superseded them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from vgpumgr.engine.operations.operation_outcome import Outcome, operation_state
from vgpumgr.engine.operations.operation_status import process
from vgpumgr.engine.operations.refusals import to_try_elsewhere
from vgpumgr.model.errors import Conflict, Interrupted
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    CLEAN,
    EVACUATE,
    FINAL_TASKS,
    LAYOUT,
    LEAVE,
    MIGRATE,
    OF_HOSTS,
    OF_IMAGES,
    RESEAT,
    OperationMoved,
    OperationRecord,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

# Steps that make devices and use them, as the journal names them.
_POWER_ON = frozenset({"RealiseDevice", "ActivatePartition", "StartDomain"})


def unfinished(tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks that have not ended."""
    return tuple(task for task in tasks if task.state not in FINAL_TASKS)


def worked_on(ledger: Ledger) -> frozenset[str]:
    """The VMs (ids) that an operation has not done with, those included that it has only taken
    back to try them elsewhere.
    """
    found: set[str] = set()
    for operation in ledger.operations(open_only=True):
        tasks = ledger.tasks(operation.id)
        found |= {task.vm_id for task in unfinished(tasks)}
        if any(task.state is TaskState.UNDONE for task in tasks):
            refused = to_try_elsewhere(tasks, ledger.refusals(operation.id))
            found |= {each.task.vm_id for each in refused}
    return frozenset(found)


def left_behind(
    ledger: Ledger, names: Collection[str], verbs: Collection[str]
) -> Iterator[tuple[OperationRecord, bool]]:
    """Open operations that touch these VMs, oldest first.

    The second value is False where all tasks have ended and only the operation's own end was
    lost: whoever comes by may write it down.
    """
    for operation in reversed(ledger.operations(open_only=True)):
        waiting = unfinished(ledger.tasks(operation.id))
        if not waiting or any(task.vm in names and task.verb in verbs for task in waiting):
            yield operation, bool(waiting)


def close_overtaken(
    ledger: Ledger, tasks: Sequence[TaskRecord], desired: Mapping[str, VmSpec]
) -> tuple[TaskRecord, ...]:
    """End the tasks that must not run any more, and return all with their states.

    A VM that is gone since, or moves, is not changed or started again where it was, nothing is made
    that was given back since, and a change gives way to a newer wish: of a VM that was stopped it
    starts nothing.
    """
    alive = {vm.id: vm for vm in ledger.vms()}
    held = {allocation.id for allocation in ledger.allocations()}
    reasons = {
        task.id: _overtaken(task, alive, desired) or _given_back(task, held)
        for task in unfinished(tasks)
    }
    moved = [
        TaskMoved(task=task, state=TaskState.FAILED, error=reason)
        for task, reason in reasons.items()
        if reason
    ]
    ledger.record(*moved)
    return tuple(
        replace(task, state=TaskState.FAILED, error=reasons[task.id])
        if reasons.get(task.id)
        else _as_asked(task, alive)
        for task in tasks
    )


def _as_asked(task: TaskRecord, alive: Mapping[str, VmRecord]) -> TaskRecord:
    """A change turns power on again because it ran; its user may have stopped it since."""
    vm = alive.get(task.vm_id)
    if task.verb != "change" or task.state in FINAL_TASKS or vm is None or vm.running:
        return task
    return replace(task, steps=tuple(step for step in task.steps if step.kind not in _POWER_ON))


def _given_back(task: TaskRecord, held: Collection[str]) -> str:
    """It may have moved away and back: what it holds now is not what it was to get then."""
    parts = (step.args.get("allocation") for step in task.steps if step.kind in _POWER_ON)
    made = [each for each in parts if each is not None]
    if all(isinstance(each, Mapping) and each["id"] in held for each in made):
        return ""
    return "what it was to create was released since"


def _overtaken(
    task: TaskRecord, alive: Mapping[str, VmRecord], desired: Mapping[str, VmSpec]
) -> str:
    if task.verb in {LAYOUT, LEAVE, CLEAN, *OF_HOSTS, *OF_IMAGES}:
        return ""
    vm = alive.get(task.vm_id)
    if vm is None:
        return "the VM was deleted meanwhile"
    if task.verb in {MIGRATE, EVACUATE, RESEAT}:
        return ""
    if task.host != vm.host:
        return f"the VM is on {vm.host} since"
    if vm.moving_to is not None:
        return f"the VM moves to {vm.moving_to.host} since"
    if task.verb == "change" and desired.get(vm.name, vm.spec) != vm.spec:
        return "superseded by a newer change"
    return ""


def close_layouts(ledger: Ledger, gpus: Collection[str], now: float) -> None:
    """End unfinished layout changes of these GPUs: a newer plan starts from what they left.

    Conflict while another live process works on one of them.
    """
    for operation in ledger.operations(open_only=True):
        tasks = ledger.tasks(operation.id)
        left = unfinished(tasks) or tasks
        mine = {task.id for task in left if task.verb == LAYOUT and task.vm_id in gpus}
        if not mine:
            continue
        if not ledger.claim_operation(operation.id):
            raise running(ledger, operation.id)
        ended = tuple(_given_up(task) if task.id in mine else task for task in tasks)
        ledger.record(
            *(
                TaskMoved(task=new.id, state=new.state, error=new.error)
                for old, new in zip(tasks, ended, strict=True)
                if new is not old
            ),
            *([] if unfinished(ended) else [_ended(operation, ended, now)]),
        )


def _given_up(task: TaskRecord) -> TaskRecord:
    if task.state in FINAL_TASKS:
        return task
    return replace(task, state=TaskState.FAILED, error="superseded by a newer layout")


def _ended(operation: OperationRecord, tasks: Sequence[TaskRecord], now: float) -> OperationMoved:
    state = operation_state([task.state for task in tasks])
    return OperationMoved(operation=operation.id, state=state, ended_at=now)


def refuse_unfinished(ledger: Ledger, vms: Sequence[VmRecord]) -> None:
    """Conflict when another live process works on a VM, or when it is half made or half deleted,
    with the command that helps.
    """
    open_ = _open_operations(ledger)
    for vm in vms:
        mine = open_.get(vm.id, [])
        for operation in mine:
            if ledger.is_worked_on(operation):
                raise running(ledger, operation)
        if vm.state not in {VmState.ACTIVE, VmState.SHELVED}:
            short = mine[0][:8] if mine else "ID"
            undo = f", or vgpumgr operation undo {short}" if vm.state is VmState.RESERVED else ""
            raise Conflict(
                f"{vm.name} is {vm.state}",
                why="an operation on it is not finished",
                next=f"vgpumgr operation resume {short}{undo}",
            )


def require_taken_back(outcome: Outcome, names: Collection[str]) -> None:
    """Raise what kept a creation of these VMs from being undone."""
    for vm in outcome.vms:
        if vm.vm in names and vm.state not in FINAL_TASKS:
            raise vm.error or Interrupted(
                f"{vm.vm} is only partly created",
                next=f"vgpumgr operation undo {outcome.operation[:8]}",
            )


def running(ledger: Ledger, operation: str) -> Conflict:
    """The error for an operation that another live process works on."""
    worker = process(ledger.operation(operation))
    return Conflict(
        f"operation {operation[:8]} is running",
        why=f"{worker} is working on it",
        next=f"vgpumgr operation show {operation[:8]}, and the same command when it is done",
    )


def _open_operations(ledger: Ledger) -> dict[str, list[str]]:
    """By VM (its id): the operations that are not done with it, newest first."""
    found: dict[str, list[str]] = {}
    for operation in ledger.operations(open_only=True):
        for vm_id in {task.vm_id for task in unfinished(ledger.tasks(operation.id))}:
            found.setdefault(vm_id, []).append(operation.id)
    return found
