"""``vgpumgr drift``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import list_options, say
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.drifts import print_drifts
from vgpumgr.model.drift import DriftKind, DriftReport, NotRead
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.words import counted

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


def _partly(parts: Sequence[NotRead], most: int = 5) -> PartlyDone:
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
