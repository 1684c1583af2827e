"""The command `drift`: differences between the ledger and the hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, say
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.model.codec import to_plain
from vgpumgr.model.drift import Drift, DriftKind, DriftReport, UnreadHost
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.formats import counted

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


def print_drifts(found: DriftReport) -> None:
    """A table with the next command below each line; ``-o json`` has what was not read, too."""
    items = [_item(each) for each in found.drifts]
    unread = [to_plain(each) for each in found.not_read]
    text = "\n".join(_lines(found, items))
    print_report("Drift", items, COLUMNS, beside={"not_read": unread}, text=text)


def _item(drift: Drift) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(drift)
    return {"name": f"{drift.host}/{drift.vm or drift.gpu}/{drift.kind}/{drift.subject}", **plain}


def _lines(found: DriftReport, items: list[dict[str, Any]]) -> Iterator[str]:
    yield from report_lines(items, COLUMNS, lambda item: [f"next: {item['next']}"])
    for part in found.not_read:
        yield f"not read  {part.host}  {part.part or 'the host'}: {part.why}"
    if not items:
        compared = f"{counted(found.vms, 'VM')} on {counted(found.hosts, 'host')}"
        yield f"no difference{' in what was read' if found.not_read else ''}: {compared}"


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
    context.app.require_hosts()
    known = [context.app.ledger.host(name).name for name in hosts]
    found = context.app.engine.drift(known)
    if ignore_foreign:
        kept = tuple(each for each in found.drifts if each.kind is not DriftKind.FOREIGN)
        found = replace(found, drifts=kept)
    _say_circumstances(found)
    print_drifts(found)
    if found.not_read:
        raise _partly(found.not_read)
    if found.drifts:
        raise click.exceptions.Exit(DIFFERENCES)


def _partly(parts: Sequence[UnreadHost], most: int = 5) -> PartlyDone:
    hosts = dict.fromkeys(each.host for each in parts)
    lines = [f"{each.host}: {each.part or 'the host'}: {each.why}" for each in parts[:most]]
    return PartlyDone(
        f"{counted(len(hosts), 'host')} could not be read completely",
        why="; ".join(lines),
        next="vgpumgr doctor",
    )


def _say_circumstances(found: DriftReport) -> None:
    """What explains differences, or their absence."""
    for host in found.rebooted:
        say(f"{host} has booted since its last observation")
    for vm in found.skipped:
        say(f"{vm} was not compared: an operation is working on it")
