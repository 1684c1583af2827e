"""The commands `queue list`, `show`, `cancel` and `explain`: VMs that wait for room."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.queue_views import entry_text, gpus_text, turn_text
from vgpumgr.endpoints.queue import (
    CANCEL_QUEUED,
    EXPLAIN_QUEUE,
    LIST_QUEUE,
    SHOW_ENTRY,
    CancelQueued,
    QueuedVmName,
)
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.formats import counted

COLUMNS = (
    Column("POSITION", "position"),
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("TERMS", "terms", spare=True),
    Column("GPUS", gpus_text),
    Column("TENANT", "tenant", spare=True),
    Column("ASKED", lambda item: age(item["since"]), spare=True),
    Column("PREEMPTED", "preempted", wide=True),
    Column("WHY", "why"),
)


@click.group()
def queue() -> None:
    """VMs that wait for capacity: list, show, cancel, explain. `vgpumgr serve` starts them."""


@queue.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List waiting VMs by position, and running VMs that entered through the queue."""
    print_list("Queue", context.read(LIST_QUEUE, Nothing()).answer["items"], COLUMNS)


@queue.command()
@click.argument("name", shell_complete=completed("queue"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show every queue entry of a VM, newest first."""
    item = context.read(SHOW_ENTRY, QueuedVmName(name=name)).answer
    print_item("QueueEntry", item, entry_text([item, *item["before"]]))


@queue.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("queue"))
@pass_context
def cancel(context: Context, names: tuple[str, ...]) -> None:
    """Remove VMs from the queue: all of them, or none. A preempted VM stays shelved."""
    done = context.act(CANCEL_QUEUED, CancelQueued(names=names)).answer
    say(f"{counted(len(done['vms']), 'VM')} removed from the queue")


@queue.command()
@output_option
@pass_context
def explain(context: Context) -> None:
    """Show which VMs the next reconcile cycle would start, and why others wait."""
    turn = context.read(EXPLAIN_QUEUE, Nothing()).answer
    print_item("QueueTurn", turn, turn_text(turn))
