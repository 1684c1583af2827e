"""``vgpumgr operation``."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    table,
)
from vgpumgr.cli.progress import changing
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.outcomes import outcome_item, print_outcome
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.journal import FINAL_TASKS, OperationRecord, StepState, TaskRecord

COLUMNS = (
    Column("ID", lambda item: item["name"][:8]),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("STARTED", lambda item: age(item["started_at"])),
    Column("NOTE", "summary"),
    Column("EPOCH", "epoch", wide=True),
)


def _item(found: OperationRecord) -> dict[str, Any]:
    return {"name": found.id, **to_plain(found)}


@click.group()
def operation() -> None:
    """Operations: list, show, resume, undo."""


@operation.command("list")
@click.option("--open", "open_only", is_flag=True, help="Only the unfinished ones.")
@list_options
@pass_context
def list_(context: Context, open_only: bool) -> None:
    """List operations, newest first."""
    found = context.app.ledger.operations(open_only=open_only)
    print_list("Operation", [_item(each) for each in found], COLUMNS)


@operation.command()
@click.argument("id_", metavar="ID")
@output_option
@pass_context
def show(context: Context, id_: str) -> None:
    """Show an operation with its VMs and their steps."""
    ledger = context.app.ledger
    found = ledger.operation(id_)
    tasks = ledger.tasks(found.id)
    item = {**_item(found), "tasks": [to_plain(task) for task in tasks]}
    head = fields(
        [("Id", found.id), ("Kind", found.kind), ("State", found.state), ("Note", found.summary)]
    )
    rows = [["  VM", "HOST", "VERB", "STATE", "STEPS", "ERROR"], *map(_task_row, tasks)]
    print_item("Operation", item, f"{head}\n{table(rows)}")


def _task_row(task: TaskRecord) -> list[str]:
    done = sum(step.state is StepState.DONE for step in task.steps)
    steps = f"{done}/{len(task.steps)}"
    return [f"  {task.vm}", task.host, task.verb, str(task.state), steps, task.error or "-"]


@operation.command()
@click.argument("id_", metavar="ID")
@output_option
@pass_context
def resume(context: Context, id_: str) -> None:
    """Finish an interrupted operation: look at the host first, then go on."""
    with changing(context, _size(context, id_)) as engine:
        outcome = engine.resume(id_)
    print_outcome(outcome)


@operation.command()
@click.argument("id_", metavar="ID")
@output_option
@pass_context
def undo(context: Context, id_: str) -> None:
    """Take back the unfinished part of an operation; finished VMs stay."""
    with changing(context, _size(context, id_)) as engine:
        outcome = engine.undo(id_)
    lines = [f"{vm.vm}: {vm.state}{f': {vm.error}' if vm.error else ''}" for vm in outcome.vms]
    print_item("Outcome", outcome_item(outcome), "\n".join(lines))
    if outcome.interrupted:
        outcome.raise_for_failure()
    left = [vm for vm in outcome.vms if vm.state not in FINAL_TASKS]
    if left:
        raise PartlyDone(
            f"{len(left)} of {len(outcome.vms)} VMs could not be taken back yet",
            why="; ".join(f"{vm.vm} on {vm.host}: {vm.error or vm.state}" for vm in left[:5]),
            next=f"vgpumgr operation undo {outcome.operation}",
        )


def _size(context: Context, id_: str) -> int:
    ledger = context.app.ledger
    return len(ledger.tasks(ledger.operation(id_).id))
