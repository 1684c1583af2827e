"""The command `drift`: differences between the ledger and the hosts."""

from __future__ import annotations

from collections.abc import Iterator

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, say
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.reports import compared_text, print_report, report_lines, unread_lines
from vgpumgr.endpoints.drifts import SURVEY_DRIFT, DriftList, DriftRequest

COLUMNS = (
    Column("HOST", "host"),
    Column("VM", "vm"),
    Column("KIND", "kind"),
    Column("DIFFERENCE", "text"),
    Column("GPU", "gpu", wide=True),
    Column("SUBJECT", "subject", wide=True),
    Column("WANTED", "wanted", wide=True),
    Column("FOUND", "found", wide=True),
    Column("NEXT", "next", wide=True),
)


def print_drifts(found: DriftList) -> None:
    """A table with the next command below each line; ``-o json`` has what was not read, too."""
    aside = {key: value for key, value in found.items() if key != "items"}
    print_report("Drift", found["items"], COLUMNS, beside=aside, text="\n".join(_lines(found)))


def _lines(found: DriftList) -> Iterator[str]:
    yield from report_lines(found["items"], COLUMNS, lambda item: [f"next: {item['next']}"])
    yield from unread_lines(found["not_read"])
    if not found["items"]:
        yield compared_text("no difference", found)


DIFFERENCES = 10


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@click.option(
    "--ignore-foreign",
    is_flag=True,
    help="Leave out foreign things that hold none of our resources.",
)
@list_options
@pass_context
def drift(context: Context, hosts: tuple[str, ...], ignore_foreign: bool) -> None:
    """List every difference between the ledger and the hosts (default: all).

    Probes and changes nothing. Exit 10 when something differs, 7 when a host or a part of it could
    not be read; unread parts are not compared. Every line says what to type next.
    """
    asked = DriftRequest(hosts=hosts, ignore_foreign=ignore_foreign)
    found = context.read(SURVEY_DRIFT, asked)
    for host in found.answer["rebooted"]:
        say(f"{host} has booted since its last observation")
    for vm in found.answer["skipped"]:
        say(f"{vm} was not compared: an operation is working on it")
    print_drifts(found.answer)
    finish(found)
    if found.answer["items"]:
        raise click.exceptions.Exit(DIFFERENCES)
