"""Execution of journalled tasks: intent, effect, confirmation; undo in reverse after a refusal.

An effect never starts before its intent is on disk. The confirm of one step and the intent of
the next are one commit. After a crash, or a call that was cut, the host is looked at first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from vgpumgr.engine.inventory.ledger_view import named_hosts
from vgpumgr.engine.operations import operation_status
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome, VmOutcome, operation_state, words
from vgpumgr.engine.operations.refusals import TRIED_ELSEWHERE, current_tasks, refused_everywhere
from vgpumgr.engine.operations.task_run import TaskRun, outcome_of
from vgpumgr.engine.operations.waiting_waves import due, leave, waits
from vgpumgr.engine.steps.step import StepSurroundings
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import (
    Conflict,
    DatabaseFault,
    HostUnreachable,
    Interrupted,
    LedgerError,
    NotFound,
    NotPermitted,
    VgpumgrError,
)
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import (
    EVACUATE,
    LAYOUT,
    LEAVE,
    OF_HOSTS,
    ROLL,
    OperationMoved,
    OperationState,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import VmSpec

_NAMED = 20


def run(
    context: EngineContext,
    operation: str,
    tasks: Sequence[TaskRecord],
    only: Collection[str] | None = None,
    *,
    elsewhere: bool = False,
    waves: bool = False,
    asked: bool = True,
) -> Outcome:
    """Run every unfinished task of an operation, or ``only`` the tasks of these VMs, and close it.
    One that is not ``asked`` for is not told of: it is no part of what is.

    One lane per host; hosts that share a task share a lane. Once ``context.stop`` is set the
    running host call ends, and nothing new begins. A database that fails meanwhile (a full disk)
    leaves the operation open: the error names it, and what is reserved in it. ``elsewhere``:
    refused VMs are tried at other places, in further tasks of the operation, as long as there are
    any. ``waves``: the waves of a rolling change that have not begun follow, one after the other.
    """
    if asked:
        context.begun(operation)
    try:
        return _run(context, operation, tasks, only, elsewhere=elsewhere, waves=waves)
    except DatabaseFault as error:
        raise _left_open(error, operation, tasks) from error


def _left_open(error: DatabaseFault, operation: str, tasks: Sequence[TaskRecord]) -> DatabaseFault:
    names = list(dict.fromkeys(task.vm for task in tasks))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    short = operation[:8]
    return type(error)(
        f"{error.message}; operation {short} stays open",
        why=f"{error.why}; {', '.join(names[:_NAMED])}{more}: its reservations are kept",
        next=f"{error.next}; then vgpumgr operation resume {short}, or operation undo {short}",
    )


def _run(
    context: EngineContext,
    operation: str,
    tasks: Sequence[TaskRecord],
    only: Collection[str] | None,
    *,
    elsewhere: bool,
    waves: bool,
) -> Outcome:
    left = [task for task in due(tasks) if only is None or task.vm in only]
    specs = _specs(context, left) if elsewhere else {}
    ended = _side_by_side(context, left)
    every = list(tasks)
    while elsewhere and not context.stop.is_set() and _any_undone(every, ended):
        more = context.reserve_alternates(operation, specs)
        if not more:
            break
        every += more
        ended |= _side_by_side(context, more)
    if not (waves and any(task.verb == ROLL for task in every)):
        return _close(context, operation, _outcomes(every, ended))
    stopped = _follow(context, operation, ended)
    outcomes = _outcomes(context.ledger.tasks(operation), ended)
    return replace(_close(context, operation, outcomes), stopped=stopped)


def _follow(
    context: EngineContext, operation: str, ended: dict[str, VmOutcome]
) -> VgpumgrError | None:
    """Run the waves that follow; why they stopped, None where all is done or something is open."""
    while not context.stop.is_set():
        try:
            more = context.reserve_wave(operation)
        except (LedgerError, Interrupted):
            raise
        except VgpumgrError as error:
            waiting = [task for task in context.ledger.tasks(operation) if waits(task)]
            context.ledger.record(*leave(waiting, f"left as it was: {error.message}"))
            return error
        if not more:
            return None
        ended |= _side_by_side(context, more)
    return None


def _side_by_side(context: EngineContext, left: Sequence[TaskRecord]) -> dict[str, VmOutcome]:
    """The outcome of each task, by its id; tasks that did not begin are left out."""
    named = {name for task in left for name in task.hosts}
    records = {host.name: host for host in named_hosts(context.ledger, named)}
    results = context.lanes.run(
        {
            name: partial(run_tasks, context, records, work)
            for name, work in tasks_by_host(left).items()
        },
        within_s=None,
    )
    ended: dict[str, VmOutcome] = {}
    for result in results.values():
        if isinstance(result, Exception):
            raise result
        ended.update(result)
    return ended


def _specs(context: EngineContext, left: Sequence[TaskRecord]) -> Mapping[str, VmSpec]:
    """The specs of VMs that may be tried elsewhere, by name: an undone VM leaves no cloud-init text
    in the ledger.
    """
    ids = {task.vm_id for task in left if task.verb in TRIED_ELSEWHERE}
    return {vm.name: vm.spec for vm in context.ledger.vms_ever(ids)} if ids else {}


def _any_undone(tasks: Sequence[TaskRecord], ended: Mapping[str, VmOutcome]) -> bool:
    states = (ended[task.id].state if task.id in ended else task.state for task in tasks)
    return any(
        state is TaskState.UNDONE and task.verb in TRIED_ELSEWHERE
        for task, state in zip(tasks, states, strict=True)
    )


def _outcomes(tasks: Sequence[TaskRecord], ended: Mapping[str, VmOutcome]) -> tuple[VmOutcome, ...]:
    """One for each VM: of several places the last; a VM that none took is told what each said."""
    now = [_as_ended(task, ended.get(task.id)) for task in tasks]
    found = []
    for task in current_tasks(now):
        outcome = ended.get(task.id) or outcome_of(task, task.state, _left(task))
        if task.state is TaskState.UNDONE:
            same = [each for each in now if each.vm == task.vm and each.verb == task.verb]
            outcome = replace(outcome, error=refused_everywhere(same) or outcome.error)
        found.append(outcome)
    return tuple(found)


def _left(task: TaskRecord) -> Conflict | None:
    """Why a VM was left out of its wave."""
    return Conflict(task.error) if task.verb == ROLL and task.error else None


def _as_ended(task: TaskRecord, outcome: VmOutcome | None) -> TaskRecord:
    if outcome is None:
        return task
    error = words(outcome) if outcome.error else task.error
    return replace(task, state=outcome.state, error=error)


def _close(context: EngineContext, operation: str, outcomes: tuple[VmOutcome, ...]) -> Outcome:
    state = operation_state([outcome.state for outcome in outcomes])
    open_ = state is OperationState.INTERRUPTED
    now = context.clock.now()
    stopped = open_ and context.stop.is_set()
    left = now + context.left_s if stopped and context.left_s and not context.unasked else None
    moved = OperationMoved(
        operation=operation, state=state, ended_at=None if open_ else now, left_until=left
    )
    context.ledger.record(moved)
    if not stopped:
        return Outcome(operation=operation, vms=outcomes)
    ways_on = operation_status.ways_on(
        context.ledger.operation(operation), context.ledger.tasks(operation)
    )
    return Outcome(
        operation=operation, vms=outcomes, interrupted=True, ways_on=ways_on, left_until=left
    )


def run_tasks(
    context: EngineContext, records: Mapping[str, HostRecord], tasks: Sequence[TaskRecord]
) -> dict[str, VmOutcome]:
    """One lane's tasks in order, by task's id; a host that cannot be reached ends it."""
    ended: dict[str, VmOutcome] = {}
    for task in tasks:
        if context.stop.is_set():
            break
        outcome = _task(context, records, task)
        ended[task.id] = outcome
        context.progress(outcome)
        if isinstance(outcome.error, HostUnreachable):
            break
    return ended


def _task(context: EngineContext, records: Mapping[str, HostRecord], task: TaskRecord) -> VmOutcome:
    gone = next((name for name in task.hosts if name not in records), None)
    if gone is not None:
        error = HostUnreachable(f"host {gone} is no longer enrolled")
        return outcome_of(task, task.state, error)
    refused = task_refusal(context, records, task)
    if refused is not None:
        return outcome_of(task, task.state, refused)
    hosts = {name: context.hosts.open(records[name]) for name in task.hosts}
    around = StepSurroundings(
        context.clock,
        context.stop,
        lambda text: context.tell(f"{task.vm}: {text}"),
        context.ledger.vm,
        context.secrets.read,
    )
    started = TaskRun(context.ledger, hosts, around, task, context.tolerance)
    return started.undo(task.error) if task.state is TaskState.UNDOING else started.forward()


def tasks_by_host(tasks: Sequence[TaskRecord]) -> dict[str, list[TaskRecord]]:
    """Tasks in their order, by the first of the hosts that share a lane."""
    first: dict[str, str] = {}

    def root(host: str) -> str:
        while host in first:
            host = first[host]
        return host

    for task in tasks:
        for peer in task.hosts[1:]:
            one, other = root(task.host), root(peer)
            if one != other:
                first[other] = one
    lanes: dict[str, list[TaskRecord]] = {}
    for task in tasks:
        lanes.setdefault(root(task.host), []).append(task)
    return lanes


# What may be done on a host in maintenance: nothing of it makes a VM run there.
_AT_REST = frozenset({LAYOUT, LEAVE, "stop", "delete", *OF_HOSTS})


def task_refusal(
    context: EngineContext, records: Mapping[str, HostRecord], task: TaskRecord
) -> VgpumgrError | None:
    """Why a task must not be resumed now. Undoing makes nothing run: it may."""
    if task.state is TaskState.UNDOING:
        return None
    resting = next((name for name in task.hosts if records[name].maintenance), None)
    if resting is not None and task.verb not in _AT_REST:
        return Conflict(
            f"{resting} is in maintenance",
            why=f"{task.verb} {task.vm} would change something there",
            next=f"vgpumgr host maintenance {resting} --off",
        )
    return _may_run(context, task) if task.verb == EVACUATE else None


def _may_run(context: EngineContext, task: TaskRecord) -> VgpumgrError | None:
    """A process that makes a VM run elsewhere has itself seen that it does not run there.

    The proof in the journal is of another moment: a host that answers again is asked.
    """
    try:
        lost = context.ledger.host(task.peer)
    except NotFound as error:
        return error
    if context.fencing.proof(lost) is not None:
        return None
    try:
        found = context.hosts.open(lost).domains.look(task.vm)
    except VgpumgrError as error:
        return NotPermitted(
            f"cannot tell whether {task.vm} runs on {lost.name}",
            why=f"it is no longer proven to be off, and does not answer: {error.message}",
            next=f"vgpumgr host evacuate {lost.name}",
        )
    ours = found and found.ownership and found.ownership.vm_id == task.vm_id
    if not found or not ours or found.state in OFF:
        return None
    return Conflict(
        f"{task.vm} is {found.state} on {lost.name}",
        why="that host is back, and somebody started the VM there",
        next=f"vgpumgr operation undo {task.operation[:8]}   (it stays on {lost.name})",
    )
