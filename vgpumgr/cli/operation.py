"""``vgpumgr operation``."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.ages import age
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
from vgpumgr.model.codec import to_plain
from vgpumgr.model.journal import OperationRecord, StepState, TaskRecord

COLUMNS = (
    Column("ID", lambda item: item["name"][:8]),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("STARTED", lambda item: age(item["started_at"])),
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
    head = fields([("Id", found.id), ("Kind", found.kind), ("State", found.state)])
    rows = [["  VM", "HOST", "VERB", "STATE", "STEPS", "ERROR"], *map(_task_row, tasks)]
    print_item("Operation", item, f"{head}\n{table(rows)}")


def _task_row(task: TaskRecord) -> list[str]:
    done = sum(step.state is StepState.DONE for step in task.steps)
    steps = f"{done}/{len(task.steps)}"
    return [f"  {task.vm}", task.host, task.verb, str(task.state), steps, task.error or "-"]


@operation.command()
@click.argument("id_", metavar="ID")
@pass_context
def resume(context: Context, id_: str) -> None:
    """Finish an interrupted operation: look at the host first, then go on."""
    with changing(context, _size(context, id_)) as engine:
        outcome = engine.resume(id_)
    outcome.raise_for_failure()
    click.echo(f"{len(outcome.done)} of {len(outcome.vms)} VMs done", err=True)


@operation.command()
@click.argument("id_", metavar="ID")
@pass_context
def undo(context: Context, id_: str) -> None:
    """Take back the unfinished part of an operation; finished VMs stay."""
    with changing(context, _size(context, id_)) as engine:
        outcome = engine.undo(id_)
    for each in outcome.vms:
        click.echo(f"{each.vm}: {each.state}{f': {each.error}' if each.error else ''}", err=True)


def _size(context: Context, id_: str) -> int:
    ledger = context.app.ledger
    return len(ledger.tasks(ledger.operation(id_).id))
