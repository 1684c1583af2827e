"""``vgpumgr queue``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import (
    Column,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.queue_items import (
    entry_text,
    gpus_text,
    queue_items,
    turn_item,
    turn_text,
)
from vgpumgr.model.errors import NotFound
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.model.queue import Turn

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
    """VMs that wait for room: list, show, cancel, explain. `vgpumgr serve` starts them."""


@queue.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List what waits, by position, and what runs on terms; by what was seen last."""
    entries = context.app.ledger.queue()
    items = queue_items(entries, _turn(context) if entries else None)
    last = len(items) + 1
    print_list("Queue", sorted(items, key=lambda item: item["position"] or last), COLUMNS)


def _turn(context: Context) -> Turn:
    return context.app.engine.queue_outlook()


@queue.command()
@click.argument("name")
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show every stay of a VM in the queue, the last one first."""
    entries = [each for each in context.app.ledger.queue([name]) if each.name == name]
    if not entries:
        raise NotFound(f"{name} was never in the queue", next="vgpumgr queue list")
    items = queue_items(reversed(entries), _turn(context))
    print_item("QueueEntry", {**items[0], "before": items[1:]}, entry_text(items))


@queue.command()
@click.argument("names", nargs=-1, required=True)
@pass_context
def cancel(context: Context, names: tuple[str, ...]) -> None:
    """Let VMs wait no more: all of them, or none. One that was preempted stays shelved."""
    context.app.writable_ledger.cancel_queued(names)
    say(f"{counted(len(set(names)), 'VM')} taken out of the queue")


@queue.command()
@output_option
@pass_context
def explain(context: Context) -> None:
    """Say what the next turn of the queue would do, and why the others wait; changes nothing."""
    turn = _turn(context)
    print_item("QueueTurn", turn_item(turn), turn_text(turn))
