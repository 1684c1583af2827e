"""The commands `operation list`, `show`, `resume` and `undo`: the journal of changes."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import limit_option, since_option
from vgpumgr.cli.output import (
    Column,
    Item,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    table,
)
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.outcome_views import print_outcome_result
from vgpumgr.endpoints.endpoint import Endpoint, Result
from vgpumgr.endpoints.operations import (
    LIST_OPERATIONS,
    RESUME_OPERATION,
    SHOW_OPERATION,
    UNDO_OPERATION,
    OneOperation,
    OperationFilter,
    TaskItem,
)
from vgpumgr.endpoints.outcomes import OutcomeItem
from vgpumgr.model.operation import StepState, TaskState

_OF_REQUESTS = frozenset({"plan", "told", "response"})
"""What only a server knows of an operation: its clients wait for it."""


def undone_text(outcome: OutcomeItem) -> str:
    """A line for each VM: what was undone, what stays, and what could not be undone."""
    lines = []
    for vm in outcome["vms"]:
        why = f": {vm['error']}" if vm["error"] else ""
        stays = " (kept: it had finished before)" if vm["state"] == TaskState.DONE else ""
        lines.append(f"{vm['name']}: {vm['state']}{stays}{why}")
    return "\n".join(lines)


def subjects_text(item: Item) -> str:
    """``clerk-01, clerk-02, clerk-03 and 37 more``."""
    names, number = item["subjects"], item["subject_count"]
    more = f" and {number - len(names)} more" if number > len(names) else ""
    return ", ".join(names) + more


COLUMNS = (
    Column("ID", lambda item: item["name"][:8]),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("STARTED", lambda item: age(item["started_at"])),
    Column("WHO", "by"),
    Column("ON", subjects_text),
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
    asked = OperationFilter(open=open_only, since=since, limit=limit)
    found = context.read(LIST_OPERATIONS, asked).answer
    print_list("Operation", found["items"], COLUMNS, more=found["more"])


@operation.command()
@click.argument("id_", metavar="ID", shell_complete=completed("operations"))
@output_option
@pass_context
def show(context: Context, id_: str) -> None:
    """Show an operation with its VMs and their steps."""
    item = context.read(SHOW_OPERATION, OneOperation(id=id_)).answer
    head = fields(
        [
            ("Id", item["id"]),
            ("Kind", item["kind"]),
            ("State", item["state"]),
            ("By", item["by"]),
            ("Note", item["note"]),
            ("Next", item["next"]),
        ]
    )
    rows = [["  VM", "HOST", "VERB", "STATE", "STEPS", "ERROR"], *map(_task_row, item["tasks"])]
    shown = {key: value for key, value in item.items() if key not in _OF_REQUESTS}
    print_item("Operation", shown, f"{head}\n{table(rows)}")


def _task_row(task: TaskItem) -> list[str]:
    steps = task["steps"]
    done = f"{sum(step['state'] == StepState.DONE for step in steps)}/{len(steps)}"
    return [
        f"  {task['vm']}",
        task["host"],
        task["verb"],
        task["state"],
        done,
        task["error"] or "-",
    ]


@operation.command()
@click.argument("id_", metavar="ID", shell_complete=completed("open operations"))
@output_option
@pass_context
def resume(context: Context, id_: str) -> None:
    """Resume an interrupted operation: inspect the host first, then continue."""
    done = _carry_out(context, RESUME_OPERATION, id_)
    if done.answer["vms"]:
        print_outcome_result(done)
    else:
        print_item("Outcome", done.answer, "it is done already: nothing was left to do")


@operation.command()
@click.argument("id_", metavar="ID", shell_complete=completed("open operations"))
@output_option
@pass_context
def undo(context: Context, id_: str) -> None:
    """Undo the unfinished part of an operation; finished VMs stay."""
    done = _carry_out(context, UNDO_OPERATION, id_)
    print_item("Outcome", done.answer, undone_text(done.answer))
    finish(done)


def _carry_out(
    context: Context, endpoint: Endpoint[OneOperation, OutcomeItem], id_: str
) -> Result[OutcomeItem]:
    asked = OneOperation(id=id_)
    total = len(context.read(SHOW_OPERATION, asked).answer["tasks"])
    return carry_out(context, endpoint, asked, total=total)
