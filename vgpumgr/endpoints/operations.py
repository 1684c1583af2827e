"""The endpoints of operations: list, show, resume, undo."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_item, outcome_result
from vgpumgr.endpoints.shapes import Name, Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import AccessRefused, PartlyDone, VgpumgrError
from vgpumgr.model.operation import (
    FINAL_TASKS,
    LAYOUT,
    ROLL,
    SHELVE,
    UNSHELVE,
    OperationRecord,
    OperationSubjects,
    TaskRecord,
    TaskState,
)

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.engine.operations.operation_status import OperationStatus
    from vgpumgr.model.ledger import Ledger


class OperationItem(TypedDict):
    """An operation. ``state`` is what it is, by its journal and its worker's life; ``note`` says
    more, ``next`` what to type. One that was interrupted is left to its person ``left_until``.
    Where several are listed each names its ``subjects``: the first of its ``subject_count`` VMs,
    or hosts.
    """

    name: str
    id: str
    kind: str
    state: str
    epoch: int
    started_at: Time
    ended_at: Time | None
    by: str
    summary: str
    worker: str
    left_until: Time | None
    note: str
    next: str
    subjects: NotRequired[list[str]]
    subject_count: NotRequired[int]


class StepItem(TypedDict):
    """A step of a task: ``kind`` is what it does, ``args`` with what."""

    seq: int
    kind: str
    args: dict[str, object]
    state: str
    detail: str
    host: str


class TaskItem(TypedDict):
    """A task of an operation: what is done to one VM, GPU or host."""

    id: str
    operation: str
    vm_id: str
    vm: str
    host: str
    verb: str
    state: str
    error: str
    peer: str
    steps: list[StepItem]


class WholeOperation(OperationItem):
    """An operation with its tasks; ``done``: nothing works on it any more. ``response`` is then the
    answer of the request that began it, ``plan`` what that was about to do, ``told`` how far it
    came, a line each; as long as they are kept.
    """

    done: bool
    tasks: list[TaskItem]
    plan: NotRequired[dict[str, object]]
    told: NotRequired[list[str]]
    response: NotRequired[dict[str, object]]


def operation_status(
    ledger: Ledger, found: OperationRecord, tasks: tuple[TaskRecord, ...] | None = None
) -> OperationStatus:
    """How it stands now; the tasks of one that has ended are not read for it. ``tasks`` are those
    that may be told of, all without it.
    """
    from vgpumgr.engine.operations.operation_status import status

    if found.ended_at is not None:
        return status(found, (), worked_on=False, now=time.time())
    worked_on = ledger.is_worked_on(found.id)
    known = ledger.tasks(found.id) if tasks is None else tasks
    return status(found, known, worked_on=worked_on, now=time.time())


def operation_item(found: OperationRecord, how: OperationStatus) -> OperationItem:
    """The JSON of an operation."""
    plain: OperationItem = to_plain(found)
    return {
        "name": found.id,
        **plain,
        "state": str(how.word),
        "left_until": how.left_until,
        "note": how.note,
        "next": how.next,
    }


_NONE = OperationSubjects()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFilter:
    """Operations, the newest first: the ``open`` ones, those begun ``since`` (Unix seconds); at
    most ``limit`` of them, 0 for all.
    """

    open: bool = False
    since: float | None = None
    limit: Annotated[int, ParameterLimits(ge=0)] = 100


class OperationList(TypedDict):
    """Operations; ``more``: there are others before them."""

    items: list[OperationItem]
    more: bool


def list_operations(context: CallContext, asked: OperationFilter) -> Result[OperationList]:
    """The operations that are asked for."""
    reads = context.reads
    found = [
        each
        for each in reads.operations(open_only=asked.open)
        if asked.since is None or each.started_at >= asked.since
    ]
    shown = found[: asked.limit] if asked.limit else found
    subjects = reads.operation_subjects([each.id for each in shown])
    items = [_listed(context, each, subjects.get(each.id, _NONE)) for each in shown]
    return Result(answer={"items": items, "more": len(found) > len(shown)})


def _listed(
    context: CallContext, found: OperationRecord, subjects: OperationSubjects
) -> OperationItem:
    plain = operation_item(found, _status(context, found))
    return {**plain, "subjects": list(subjects.names), "subject_count": subjects.number}


def _status(context: CallContext, found: OperationRecord) -> OperationStatus:
    tasks = () if found.ended_at is not None else context.reads.tasks(found.id)
    return operation_status(context.app.ledger, found, tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOperation:
    """An operation by its id, or the beginning of it."""

    id: Name


def show_operation(context: CallContext, asked: OneOperation) -> Result[WholeOperation]:
    """One operation with its tasks and their steps; a VM waits for its wave in one task, and
    changes in another.
    """
    from vgpumgr.engine.operations.waiting_waves import without_begun

    reads = context.reads
    found = reads.operation(asked.id)
    tasks = reads.tasks(found.id)
    how = operation_status(context.app.ledger, found, tasks)
    items: list[TaskItem] = [to_plain(task) for task in without_begun(tasks)]
    done = found.ended_at is not None
    whole: Any = {**operation_item(found, how), "done": done, "tasks": items}
    return Result(answer=whole)


def resume_operation(context: CallContext, asked: OneOperation) -> Result[OutcomeItem]:
    """Look at the hosts first, then go on."""
    whole_id = _own(context, asked.id)
    with context.changing() as engine:
        outcome = engine.resume(whole_id)
    return outcome_result(outcome)


def undo_operation(context: CallContext, asked: OneOperation) -> Result[OutcomeItem]:
    """Undo what is unfinished; what has finished stays."""
    whole_id = _own(context, asked.id)
    with context.changing() as engine:
        outcome = engine.undo(whole_id)
    return Result(answer=outcome_item(outcome), error=_left_undone(outcome))


_TENANTS_VERBS = frozenset({"create", "delete", "change", "start", "stop"})
_TENANTS_VERBS |= {SHELVE, UNSHELVE, LAYOUT, ROLL}


def _own(context: CallContext, id_: str) -> str:
    """The id of an operation that the caller may act on: one that tenants can begin, on VMs of the
    caller's tenants alone; NotFound, AccessRefused.
    """
    if context.scope.is_all:
        return id_
    found = context.reads.own_operation(id_)
    others = {each.verb for each in context.reads.tasks(found.id)} - _TENANTS_VERBS
    if others:
        raise AccessRefused(
            f"operation {found.id} is for users who may act in all tenants",
            why=f"it has tasks to {', '.join(sorted(others))}",
            next="ask an operator of the fleet",
        )
    return found.id


def _left_undone(outcome: Outcome) -> VgpumgrError | None:
    if outcome.interrupted:
        return failure_of(outcome)
    left = [vm for vm in outcome.vms if vm.state not in FINAL_TASKS]
    if not left:
        return None
    settled: Sequence[VgpumgrError] = [
        vm.error for vm in left if vm.error is not None and vm.state is TaskState.RUNNING
    ]
    if len(settled) == len(outcome.vms) == 1:
        return settled[0]
    return PartlyDone(
        f"{len(left)} of {len(outcome.vms)} VMs could not be undone{'' if settled else ' yet'}",
        why="; ".join(f"{vm.vm} on {vm.host}: {vm.error or vm.state}" for vm in left[:5]),
        next=next((each.next for each in settled), "")
        or f"vgpumgr operation undo {outcome.operation}",
    )


LIST_OPERATIONS = Endpoint(
    name="operation.list",
    method=HttpMethod.GET,
    path="/operations",
    permission=Permission.OPERATION_READ,
    summary="Operations, the newest first.",
    asks=OperationFilter,
    answers=OperationList,
    kind="OperationList",
    work=list_operations,
    scoped=True,
)
SHOW_OPERATION = Endpoint(
    name="operation.show",
    method=HttpMethod.GET,
    path="/operations/{id}",
    permission=Permission.OPERATION_READ,
    summary="An operation with its tasks and their steps.",
    asks=OneOperation,
    answers=WholeOperation,
    kind="Operation",
    work=show_operation,
    scoped=True,
)
RESUME_OPERATION = Endpoint(
    name="operation.resume",
    method=HttpMethod.POST,
    path="/operations/{id}:resume",
    permission=Permission.OPERATION_ACT,
    summary="Resume an interrupted operation.",
    asks=OneOperation,
    answers=OutcomeItem,
    kind="Outcome",
    work=resume_operation,
    runs=Runs.OPERATION,
    scoped=True,
)
UNDO_OPERATION = Endpoint(
    name="operation.undo",
    method=HttpMethod.POST,
    path="/operations/{id}:undo",
    permission=Permission.OPERATION_ACT,
    summary="Undo the unfinished part of an operation.",
    asks=OneOperation,
    answers=OutcomeItem,
    kind="Outcome",
    work=undo_operation,
    runs=Runs.OPERATION,
    scoped=True,
)

ENDPOINTS = (LIST_OPERATIONS, SHOW_OPERATION, RESUME_OPERATION, UNDO_OPERATION)
