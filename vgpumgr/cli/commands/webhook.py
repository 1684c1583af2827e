"""The commands `webhook add`, `list`, `show`, `remove`, `pause`, `resume`, `rotate` and `test`."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.ages import age, until
from vgpumgr.endpoints import webhooks
from vgpumgr.endpoints.shapes import Nothing

COLUMNS = (
    Column("NAME", "name"),
    Column("TENANT", "tenant"),
    Column("EVENTS", lambda item: item["events"] or ["all"]),
    Column("STATE", "state"),
    Column("BEHIND", "behind"),
    Column("SENT", lambda item: age(item["delivered_at"])),
    Column("URL", "url"),
    Column("WHY", "why", wide=True),
)
_ONE = click.argument("name", shell_complete=completed("webhooks"))


@click.group()
def webhook() -> None:
    """Records of the trail, sent as they are written: add, list, show, pause, rotate, test."""


@webhook.command()
@click.argument("name")
@click.option("--url", required=True, metavar="URL", help="https, or http to this machine.")
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="KIND",
    help="A kind of record or the beginning of one, like vm. or operation.failed; may be repeated. "
    "Without it all are sent.",
)
@click.option(
    "--tenant",
    default="",
    metavar="TENANT",
    help="Only what is of this tenant; * for all. [default: all that you reach]",
    shell_complete=completed("tenants"),
)
@output_option
@pass_context
def add(context: Context, name: str, url: str, events: tuple[str, ...], tenant: str) -> None:
    """Send records to URL from now on, and print the secret that signs them, once."""
    asked = webhooks.AddWebhook(name=name, url=url, events=events, tenant=tenant)
    made = context.act(webhooks.ADD_WEBHOOK, asked)
    print_item("NewWebhook", made.answer, made.answer["secret"])
    finish(made)


@webhook.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List webhooks; BEHIND is how far the trail has gone on since."""
    found = context.read(webhooks.LIST_WEBHOOKS, Nothing())
    print_list("Webhook", found.answer["items"], COLUMNS)


@webhook.command()
@_ONE
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a webhook: its state, why, and how far it has come."""
    _show(context.read(webhooks.SHOW_WEBHOOK, webhooks.OneWebhook(name=name)).answer)


def _show(item: webhooks.WebhookItem) -> None:
    pairs = (
        ("name", item["name"]),
        ("id", item["id"]),
        ("tenant", item["tenant"]),
        ("url", item["url"]),
        ("events", ", ".join(item["events"]) or "all"),
        ("state", item["state"]),
        ("why", item["why"]),
        ("attempts failed", item["failures"] or ""),
        ("tried again", until(item["retry_at"]) if item["retry_at"] else ""),
        ("sent last", age(item["delivered_at"])),
        ("sent up to", f"{item['cursor']}, {item['behind']} behind"),
        ("added by", item["created_by"]),
    )
    print_item("Webhook", item, fields([each for each in pairs if each[1] != ""]))


@webhook.command()
@_ONE
@pass_context
def remove(context: Context, name: str) -> None:
    """Remove a webhook and its secret."""
    context.act(webhooks.REMOVE_WEBHOOK, webhooks.OneWebhook(name=name))
    say(f"webhook {name} is removed")


@webhook.command()
@_ONE
@click.option("--why", default="", metavar="TEXT", help="What others are told.")
@pass_context
def pause(context: Context, name: str, why: str) -> None:
    """Send nothing until it is resumed; what is written meanwhile is sent then."""
    context.act(webhooks.PAUSE_WEBHOOK, webhooks.PauseWebhook(name=name, why=why))
    say(f"webhook {name} is paused; vgpumgr webhook resume {name} goes on")


@webhook.command()
@_ONE
@pass_context
def resume(context: Context, name: str) -> None:
    """Send again, from where it was."""
    item = context.act(webhooks.RESUME_WEBHOOK, webhooks.OneWebhook(name=name)).answer
    say(f"webhook {name} goes on after record {item['cursor']}")


@webhook.command()
@_ONE
@click.option(
    "--keep-hours",
    "keep_h",
    type=click.IntRange(0, webhooks.MOST_KEPT_H),
    default=webhooks.KEPT_H,
    metavar="HOURS",
    show_default=True,
    help="How long the old secret signs, too; 0 where it is in wrong hands.",
)
@output_option
@pass_context
def rotate(context: Context, name: str, keep_h: int) -> None:
    """Give it a new secret, and print that once; the old one signs too for a while."""
    asked = webhooks.RotateWebhook(name=name, keep_h=keep_h)
    made = context.act(webhooks.ROTATE_WEBHOOK, asked)
    print_item("NewWebhook", made.answer, made.answer["secret"])
    finish(made)


@webhook.command()
@_ONE
@output_option
@pass_context
def test(context: Context, name: str) -> None:
    """Send one signed message now, and say what the receiver answers."""
    found = context.act(webhooks.TEST_WEBHOOK, webhooks.OneWebhook(name=name))
    took = "took the message" if found.answer["taken"] else "did not take the message"
    print_item("WebhookAnswer", found.answer, f"the receiver {took}: {found.answer['answer']}")
    finish(found)
