"""The life cycle of operations: begun, resumed, undone, ended as superseded; VMs are refused while
one on them is unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from vgpumgr.engine.operations import execution, operation_status
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome, operation_state
from vgpumgr.engine.operations.operation_records import VERBS, OnRefusal
from vgpumgr.engine.operations.operation_status import process
from vgpumgr.engine.operations.refusals import BY_REQUEST, retryable_vms
from vgpumgr.engine.operations.waiting_waves import due
from vgpumgr.model.errors import Conflict, Interrupted, StaleGeneration
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    CLEAN,
    EVACUATE,
    FINAL_TASKS,
    LAYOUT,
    LEAVE,
    MIGRATE,
    OF_BACKUPS,
    OF_HOSTS,
    OF_IMAGES,
    OF_SNAPSHOTS,
    REIMAGE,
    RENAME,
    RESEAT,
    ROLL,
    UNSHELVE,
    OperationMoved,
    OperationRecord,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

T = TypeVar("T")

PLAN_ATTEMPTS = 5


def until_current(attempt: Callable[[], T]) -> T:
    """The result of an attempt that plans and reserves; the last StaleGeneration is raised."""
    for _ in range(PLAN_ATTEMPTS - 1):
        try:
            return attempt()
        except StaleGeneration:
            continue
    return attempt()


# A process claims an operation before it runs it.


def begin(context: EngineContext, start: Reservation) -> Outcome:
    """Reserve and run; StaleGeneration changes nothing."""
    if not (start.tasks or start.layouts):
        return Outcome()
    if context.stop.is_set():
        raise Interrupted("interrupted", why="nothing was changed yet")
    context.ledger.reserve(start)
    _claim(context, start.operation.id)
    return execution.run(context, start.operation.id, start.tasks, elsewhere=True, waves=True)


def resume(context: EngineContext, prefix: str) -> Outcome:
    """Finish an interrupted operation: look first, then go on. A finished one stays as it is;
    Conflict where it ended otherwise.
    """
    record = context.ledger.operation(prefix)
    operation_status.refuse_resume_of_ended(record, context.ledger.tasks(record.id))
    operation = record.id
    tasks = _claimed(context, operation)
    refused = retryable_vms(tasks, context.ledger.refusals(operation))
    waiting = (*unfinished(tasks), *(each.task for each in refused))
    tasks = close_superseded(context.ledger, tasks, {})
    return execution.run(context, operation, tasks, elsewhere=True, waves=True).of(waiting)


def undo(context: EngineContext, prefix: str) -> Outcome:
    """Undo an operation's unfinished creations and moves; finished tasks stay. Conflict for an
    operation that has ended, that a live process works on, or that only goes forward.
    """
    record = context.ledger.operation(prefix)
    operation_status.refuse_undo_of_ended(record, context.ledger.tasks(record.id))
    tasks = _claimed(context, record.id)
    # It may have ended while its worker held it.
    operation_status.refuse_undo_of_ended(context.ledger.operation(record.id), tasks)
    back = _to_undo(tasks)
    _decide(context, record, back)
    return execution.run(context, record.id, back)


def _decide(
    context: EngineContext, operation: OperationRecord, tasks: Iterable[TaskRecord]
) -> None:
    """Record the undoing of all tasks before the first is undone: after an interruption no process
    finishes the rest forward. A task that may have settled is looked at first.
    """
    context.ledger.record(
        *(
            TaskMoved(task=task.id, state=TaskState.UNDOING, error=task.error)
            for task in tasks
            if task.state is TaskState.UNDOING and not operation_status.may_have_settled(task)
        ),
        OperationMoved(operation=operation.id, state=OperationState.RUNNING),
    )


def finish_leftovers(
    context: EngineContext, desired: Mapping[str, VmSpec], verbs: Collection[str]
) -> Outcome:
    """Go on with what a crash or an interruption left behind on these VMs."""
    ledger, ended = context.ledger, Outcome()
    for operation, waits in unfinished_operations(ledger, desired, verbs):
        if context.unasked and operation_status.is_left(operation, context.clock.now()):
            continue
        if waits:
            ended = ended.then(_go_on(context, operation.id, desired))
        elif ledger.claim_operation(operation.id):
            execution.run(context, operation.id, ledger.tasks(operation.id), asked=False)
    return ended


def undo_unfinished(context: EngineContext, names: Collection[str]) -> None:
    """Undo what was to bring these VMs up, made, shelved or with another disk, and of no other."""
    for operation, waits in unfinished_operations(
        context.ledger, names, {"create", UNSHELVE, REIMAGE}
    ):
        if waits:
            tasks = _to_undo(_claimed(context, operation.id), names)
            outcome = execution.run(context, operation.id, tasks, only=names)
            require_undone(outcome, names)


def _go_on(context: EngineContext, operation: str, desired: Mapping[str, VmSpec]) -> Outcome:
    """Resume tasks that the present request does not supersede."""
    claimed = _claimed(context, operation)
    tasks = close_superseded(context.ledger, claimed, desired)
    outcome = execution.run(context, operation, tasks, elsewhere=True)
    if outcome.interrupted:
        outcome.raise_for_failure()
    return outcome.of(due(tasks))


def _to_undo(
    tasks: Iterable[TaskRecord], names: Collection[str] | None = None
) -> tuple[TaskRecord, ...]:
    """Unfinished creations and moves (of these VMs) marked to be undone; the rest only goes
    forward.
    """

    def chosen(task: TaskRecord) -> bool:
        return task.state not in FINAL_TASKS and (names is None or task.vm in names)

    return tuple(_marked_undoing(task) if chosen(task) else task for task in tasks)


def _marked_undoing(task: TaskRecord) -> TaskRecord:
    if VERBS[task.verb].on_refusal is not OnRefusal.UNDO:
        raise Conflict(
            f"{task.verb} {task.vm} cannot be undone",
            why="it only goes forward",
            next=f"vgpumgr operation resume {task.operation[:8]}",
        )
    why = f"{BY_REQUEST}: {task.error}" if task.error else BY_REQUEST
    return replace(task, state=TaskState.UNDOING, error=why)


def _claimed(context: EngineContext, operation: str) -> tuple[TaskRecord, ...]:
    _claim(context, operation)
    return context.ledger.tasks(operation)


def _claim(context: EngineContext, operation: str) -> None:
    if not context.ledger.claim_operation(operation):
        raise running(context.ledger, operation)


# Steps that make devices and use them, as the journal names them.
_POWER_ON = frozenset({"RealiseDevice", "ActivatePartition", "StartDomain"})


def unfinished(tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks that have not ended."""
    return tuple(task for task in tasks if task.state not in FINAL_TASKS)


def worked_on(ledger: Ledger) -> frozenset[str]:
    """The VMs (ids) of unfinished tasks, and VMs whose task was undone so that they are tried
    elsewhere.
    """
    found: set[str] = set()
    for operation in ledger.operations(open_only=True):
        tasks = ledger.tasks(operation.id)
        found |= {task.vm_id for task in due(tasks)}
        if any(task.state is TaskState.UNDONE for task in tasks):
            refused = retryable_vms(tasks, ledger.refusals(operation.id))
            found |= {each.task.vm_id for each in refused}
    return frozenset(found)


def unfinished_operations(
    ledger: Ledger, names: Collection[str], verbs: Collection[str]
) -> Iterator[tuple[OperationRecord, bool]]:
    """Open operations that touch these VMs, oldest first.

    The second value is False where all tasks have ended and only the operation's own end was lost:
    any process may record it.
    """
    for operation in reversed(ledger.operations(open_only=True)):
        waiting = unfinished(ledger.tasks(operation.id))
        if not waiting or any(task.vm in names and task.verb in verbs for task in waiting):
            yield operation, bool(waiting)


def close_superseded(
    ledger: Ledger, tasks: Sequence[TaskRecord], desired: Mapping[str, VmSpec]
) -> tuple[TaskRecord, ...]:
    """End the tasks that must not run any more, and return all with their states.

    A VM that has been deleted or moved since is not changed or started at its old place, released
    allocations are not made, and a change gives way to a newer request: of a VM that was stopped
    since it starts nothing.
    """
    alive = {vm.id: vm for vm in ledger.vms()}
    held = {allocation.id for allocation in ledger.allocations()}
    reasons = {
        task.id: _superseded(task, alive, desired) or _given_back(task, held)
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
    """Whether a task's allocations were released since: the VM may have moved away and back."""
    parts = (step.args.get("allocation") for step in task.steps if step.kind in _POWER_ON)
    made = [each for each in parts if each is not None]
    if all(isinstance(each, Mapping) and each["id"] in held for each in made):
        return ""
    return "what it was to create was released since"


def _superseded(
    task: TaskRecord, alive: Mapping[str, VmRecord], desired: Mapping[str, VmSpec]
) -> str:
    if task.verb in {LAYOUT, LEAVE, CLEAN, *OF_HOSTS, *OF_IMAGES, *OF_BACKUPS}:
        return ""
    vm = alive.get(task.vm_id)
    if vm is None:
        return "the VM was deleted meanwhile"
    if task.verb == ROLL:
        return "superseded by a newer change" if vm.name in desired else ""
    if task.verb in {MIGRATE, EVACUATE, RESEAT, RENAME, *OF_SNAPSHOTS}:
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


def refuse_resting(vms: Iterable[tuple[str, str]], resting: Collection[str]) -> None:
    """Conflict when one of these, each a VM and its host, lies on a host in maintenance."""
    for vm, host in vms:
        if host in resting:
            raise Conflict(
                f"{host} is in maintenance",
                why=f"vgpumgr does not touch it, and {vm} is on it",
                next=f"vgpumgr host maintenance {host} --off",
            )


def refuse_shelved(vms: Iterable[VmRecord]) -> None:
    """Conflict for a VM that has given back what this needs."""
    for vm in vms:
        if vm.state is VmState.SHELVED:
            raise Conflict(
                f"{vm.name} is shelved",
                why="it has released its GPU parts, CPUs and memory",
                next=f"vgpumgr vm start {vm.name}",
            )


def require_undone(outcome: Outcome, names: Collection[str]) -> None:
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
