"""``vgpumgr store thaw``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import Column, list_options, print_list, say
from vgpumgr.cli.questions import confirm
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.amnesia.thawing import Thaw

COLUMNS = (
    Column("HOST", "host"),
    Column("VM", "vm"),
    Column("KNOWS", "text"),
    Column("CONFLICT", "conflict"),
)


@click.command()
@click.option("--apply", "apply_", is_flag=True, help="Record it and lift the freeze.")
@click.option(
    "--without", multiple=True, metavar="HOST", help="Leave this host out; it is cordoned."
)
@click.option(
    "--forget",
    multiple=True,
    metavar="VM",
    help="This VM was deleted: no host shows any trace of it.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@list_options
@pass_context
def thaw(
    context: Context, apply_: bool, without: tuple[str, ...], forget: tuple[str, ...], yes: bool
) -> None:
    """Bring a ledger that was rolled back up to date with its hosts.

    Probes every host and shows what the ledger lacks. With --apply VMs and allocations are recorded
    as found on the hosts, nothing is closed, and the ledger allocates again in a new epoch.
    """
    context.app.require_hosts()
    engine = context.app.engine
    if not apply_:
        _show(engine.thaw_plan(without=without, forget=forget), without)
        return
    confirm(yes=yes)("Record what the hosts know, and allocate again?")
    done = engine.thaw(without=without, forget=forget)
    _print(done)
    say(f"the ledger allocates again, in epoch {engine.ledger.epoch()}")


def _show(found: Thaw, without: tuple[str, ...]) -> None:
    _print(found)
    for host, why in found.missing.items():
        say(f"{host} did not report its state: {why}")
    if found.frozen is None:
        say("the ledger is not frozen")
        return
    if found.conflicts:
        say(f"{counted(len(found.conflicts), 'conflict')} must be settled first")
    silent = [host for host in found.missing if host not in without]
    flags = "".join(f" --without {host}" for host in (*without, *silent))
    say(f"next: vgpumgr store thaw --apply{flags}")
    if not flags:
        say("      to leave out a host that cannot be trusted: --without HOST; it is cordoned then")


def _print(found: Thaw) -> None:
    items = [
        {
            "name": f"{line.host}/{line.vm}",
            "host": line.host,
            "vm": line.vm,
            "text": line.text,
            "conflict": line.conflict,
        }
        for line in found.lines
    ]
    print_list("Thaw", items, COLUMNS)
