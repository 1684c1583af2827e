"""The commands `queue list`, `show`, `cancel` and `explain`: VMs that wait for room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.queue_views import entry_text, gpus_text, queue_items, turn_item, turn_text
from vgpumgr.model.errors import NotFound
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.model.queue import QueueDecision


COLUMNS = (
    Column("POSITION", "position"),
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("TERMS", "terms", spare=True),
    Column("GPUS", lambda item: gpus_text(dict(item))),
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
    entries = context.app.ledger.queue()
    items = queue_items(entries, _turn(context) if entries else None)
    last = len(items) + 1
    print_list("Queue", sorted(items, key=lambda item: item["position"] or last), COLUMNS)


def _turn(context: Context) -> QueueDecision:
    return context.app.engine.queue_outlook()


@queue.command()
@click.argument("name", shell_complete=completed("queue"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show every queue entry of a VM, newest first."""
    entries = [each for each in context.app.ledger.queue([name]) if each.name == name]
    if not entries:
        raise NotFound(f"{name} was never in the queue", next="vgpumgr queue list")
    items = queue_items(reversed(entries), _turn(context))
    print_item("QueueEntry", {**items[0], "before": items[1:]}, entry_text(items))


@queue.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("queue"))
@pass_context
def cancel(context: Context, names: tuple[str, ...]) -> None:
    """Remove VMs from the queue: all of them, or none. A preempted VM stays shelved."""
    context.app.writable_ledger.cancel_queued(names)
    say(f"{counted(len(set(names)), 'VM')} removed from the queue")


@queue.command()
@output_option
@pass_context
def explain(context: Context) -> None:
    """Show which VMs the next reconcile cycle would start, and why others wait."""
    turn = _turn(context)
    print_item("QueueTurn", turn_item(turn), turn_text(turn))
