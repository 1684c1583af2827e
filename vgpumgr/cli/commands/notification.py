"""The commands `notification list`, `show`, `apply`, `test`, `resume` and `remove`."""

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
from vgpumgr.cli.user_files import document_text, file_option
from vgpumgr.cli.views.ages import age, until
from vgpumgr.endpoints import notifications
from vgpumgr.endpoints.shapes import Nothing

COLUMNS = (
    Column("NAME", "name"),
    Column("EVENTS", lambda item: item["events"] or ["all"]),
    Column("SEVERITY", "severity"),
    Column("TO", lambda item: [*item["to"], *item["webhooks"]]),
    Column("STATE", "state"),
    Column("MAILS", "mails"),
    Column("SENT", lambda item: age(item["sent_at"])),
    Column("WHY", "why", wide=True),
)
_ONE = click.argument("name", shell_complete=completed("notifications"))


@click.group()
def notification() -> None:
    """Mail of what matters: list, show, apply, test, resume, remove."""


@notification.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List the rules by which mail is sent."""
    found = context.read(notifications.LIST_NOTIFICATIONS, Nothing())
    print_list("Notification", found.answer["items"], COLUMNS)
    finish(found)


@notification.command()
@_ONE
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a rule: its state, why, and how far it has come."""
    asked = notifications.OneNotification(name=name)
    found = context.read(notifications.SHOW_NOTIFICATION, asked)
    _show(found.answer)
    finish(found)


def _show(item: notifications.NotificationItem) -> None:
    quiet = ["hours of the week"] if item["quiet_hours"] else []
    quiet += [f"days of {item['holidays']}"] if item["holidays"] else []
    pairs = (
        ("name", item["name"]),
        ("events", ", ".join(item["events"]) or "all"),
        ("severity", f"{item['severity']} and above"),
        ("tenant", item["tenant"]),
        ("to", ", ".join(item["to"])),
        ("webhooks", ", ".join(item["webhooks"])),
        ("mails", f"{item['digest_s']:g} s after the first record, {item['every_s']:g} s apart"),
        ("quiet", f"{' and '.join(quiet)}, {item['time_zone']}" if quiet else ""),
        ("state", item["state"]),
        ("why", item["why"]),
        ("attempts failed", item["failures"] or ""),
        ("tried again", until(item["retry_at"]) if item["retry_at"] else ""),
        ("sent", f"{item['mails']}, the last {age(item['sent_at'])} ago" if item["mails"] else ""),
        ("behind", item["behind"]),
    )
    print_item("Notification", item, fields([each for each in pairs if each[1] != ""]))


@notification.command()
@file_option
@list_options
@pass_context
def apply(context: Context, file: str) -> None:
    """Write the rules of a file, each over the one of its name; a paused one is sent to again."""
    found = context.act(notifications.APPLY_NOTIFICATIONS, document_text(file))
    print_list("Notification", found.answer["items"], COLUMNS)
    finish(found)


@notification.command()
@_ONE
@output_option
@pass_context
def test(context: Context, name: str) -> None:
    """Send one mail now, whatever the hour, and print what the mail server answers."""
    asked = notifications.OneNotification(name=name)
    found = context.act(notifications.TEST_NOTIFICATION, asked)
    print_item("MailAnswer", found.answer, found.answer["answer"])
    finish(found)


@notification.command()
@_ONE
@pass_context
def resume(context: Context, name: str) -> None:
    """Send by a rule again that was paused after too many attempts; from where it was."""
    context.act(notifications.RESUME_NOTIFICATION, notifications.OneNotification(name=name))
    say(f"notification {name} is sent again")


@notification.command()
@_ONE
@pass_context
def remove(context: Context, name: str) -> None:
    """Remove a rule: its addresses are told nothing more."""
    context.act(notifications.REMOVE_NOTIFICATION, notifications.OneNotification(name=name))
    say(f"notification {name} is removed")
