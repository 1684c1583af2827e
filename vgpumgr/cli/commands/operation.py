"""The commands `operation list`, `show`, `resume` and `undo`: the journal of changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import limit_option, since_option
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    table,
)
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.outcome_views import print_outcome
from vgpumgr.endpoints.outcomes import outcome_item
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.operation import FINAL_TASKS, OperationRecord, StepState, TaskRecord, TaskState

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.engine.operations.operation_status import OperationStatus
    from vgpumgr.model.ledger import Ledger


def operation_status(
    ledger: Ledger, found: OperationRecord, tasks: tuple[TaskRecord, ...] | None = None
) -> OperationStatus:
    """How it stands now; the tasks of one that has ended are not read for it."""
    from vgpumgr.engine.operations.operation_status import status

    if found.ended_at is not None:
        return status(found, (), worked_on=False, now=time.time())
    worked_on = ledger.is_worked_on(found.id)
    known = ledger.tasks(found.id) if tasks is None else tasks
    return status(found, known, worked_on=worked_on, now=time.time())


def operation_item(found: OperationRecord, how: OperationStatus) -> dict[str, Any]:
    """The JSON of an operation. ``state`` is what it is, by its journal and its worker's life."""
    return {
        "name": found.id,
        **to_plain(found),
        "state": str(how.word),
        "left_until": how.left_until,
        "note": how.note,
        "next": how.next,
    }


def undone_text(outcome: Outcome) -> str:
    """A line for each VM: what was undone, what stays, and what could not be undone."""
    from vgpumgr.model.operation import TaskState

    lines = []
    for vm in outcome.vms:
        why = f": {vm.error}" if vm.error else ""
        stays = " (kept: it had finished before)" if vm.state is TaskState.DONE else ""
        lines.append(f"{vm.vm}: {vm.state}{stays}{why}")
    return "\n".join(lines)


COLUMNS = (
    Column("ID", lambda item: item["name"][:8]),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("STARTED", lambda item: age(item["started_at"])),
    Column("WHO", "by"),
    Column("NOTE", "note"),
    Column("WORKER", lambda item: item["worker"].rpartition(":")[0], wide=True),
    Column("EPOCH", "epoch", wide=True),
)


@click.group()
def operation() -> None:
    """Operations: list, show, resume, undo."""


@operation.command("list")
@click.option("--open", "open_only", is_flag=True, help="Only the unfinished ones.")
@since_option
@limit_option
@list_options
@pass_context
def list_(context: Context, open_only: bool, since: float | None, limit: int) -> None:
    """List operations, newest first. STATE: `running` has a live process, `interrupted`
    waits for you or serve, `abandoned` lost its process.
    """
    ledger = context.app.ledger
    found = [
        each
        for each in ledger.operations(open_only=open_only)
        if since is None or each.started_at >= since
    ]
    shown = found[:limit] if limit else found
    items = [operation_item(each, operation_status(ledger, each)) for each in shown]
    print_list("Operation", items, COLUMNS, more=len(found) > len(shown))


@operation.command()
@click.argument("id_", metavar="ID", shell_complete=completed("operations"))
@output_option
@pass_context
def show(context: Context, id_: str) -> None:
    """Show an operation with its VMs and their steps."""
    ledger = context.app.ledger
    found = ledger.operation(id_)
    tasks = ledger.tasks(found.id)
    how = operation_status(ledger, found, tasks)
    item = {**operation_item(found, how), "tasks": [to_plain(task) for task in tasks]}
    head = fields(
        [
            ("Id", found.id),
            ("Kind", found.kind),
            ("State", how.word),
            ("By", found.by),
            ("Note", how.note),
            ("Next", how.next),
        ]
    )
    rows = [["  VM", "HOST", "VERB", "STATE", "STEPS", "ERROR"], *map(_task_row, tasks)]
    print_item("Operation", item, f"{head}\n{table(rows)}")


def _task_row(task: TaskRecord) -> list[str]:
    done = sum(step.state is StepState.DONE for step in task.steps)
    steps = f"{done}/{len(task.steps)}"
    return [f"  {task.vm}", task.host, task.verb, str(task.state), steps, task.error or "-"]


@operation.command()
@click.argument("id_", metavar="ID", shell_complete=completed("open operations"))
@output_option
@pass_context
def resume(context: Context, id_: str) -> None:
    """Resume an interrupted operation: inspect the host first, then continue."""
    with changing(context, _size(context, id_)) as engine:
        outcome = engine.resume(id_)
    if not outcome.vms:
        print_item("Outcome", outcome_item(outcome), "it is done already: nothing was left to do")
        return
    print_outcome(outcome)


@operation.command()
@click.argument("id_", metavar="ID", shell_complete=completed("open operations"))
@output_option
@pass_context
def undo(context: Context, id_: str) -> None:
    """Undo the unfinished part of an operation; finished VMs stay."""
    with changing(context, _size(context, id_)) as engine:
        outcome = engine.undo(id_)
    print_item("Outcome", outcome_item(outcome), undone_text(outcome))
    if outcome.interrupted:
        outcome.raise_for_failure()
    left = [vm for vm in outcome.vms if vm.state not in FINAL_TASKS]
    if not left:
        return
    settled = [vm.error for vm in left if vm.error is not None and vm.state is TaskState.RUNNING]
    if len(settled) == len(outcome.vms) == 1:
        raise settled[0]
    raise PartlyDone(
        f"{len(left)} of {len(outcome.vms)} VMs could not be undone{'' if settled else ' yet'}",
        why="; ".join(f"{vm.vm} on {vm.host}: {vm.error or vm.state}" for vm in left[:5]),
        next=next((each.next for each in settled), "")
        or f"vgpumgr operation undo {outcome.operation}",
    )


def _size(context: Context, id_: str) -> int:
    ledger = context.app.ledger
    return len(ledger.tasks(ledger.operation(id_).id))
