"""The commands `vm connect` and `pool connect`: tickets to the console of a VM or desktop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import fields, output_option, print_item
from vgpumgr.cli.running_command import ending_gently

if TYPE_CHECKING:
    from vgpumgr.app.ticket_password import GivenTicket


timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=45.0,
    show_default=True,
    help="Seconds to wait for an answer of `vgpumgr serve`.",
)


@click.command("connect")
@click.argument("name", shell_complete=completed("vms"))
@timeout_option
@output_option
@pass_context
def vm_connect(context: Context, name: str, timeout: float) -> None:
    """Get a console ticket for a VM: an address and a password for one VNC connection.

    `vgpumgr serve` on this machine is the console proxy: it listens on 127.0.0.1 and forwards the
    connection over SSH to the VM. The ticket ends with its first connection, or when it expires.
    """
    from vgpumgr.app.actor import actor
    from vgpumgr.app.ticket_password import connect_vm

    with ending_gently(context.app.stop):
        given = connect_vm(context.app.engine, name, actor(), timeout)
    print_ticket(context, given)


def print_ticket(context: Context, given: GivenTicket) -> None:
    """The address and the password, once."""
    ticket, open_s = given.ticket, context.config.ticket_s
    until = (ticket.opened_at or time.time()) + open_s
    host, _, port = ticket.address.rpartition(":")
    item = {
        "id": ticket.id,
        "vm": ticket.vm,
        "user": ticket.user,
        "machine": ticket.machine,
        "address": ticket.address,
        "password": given.password,
        "until": until,
        "guest_addresses": list(given.addresses),
    }
    shown = [
        ("Address", f"{ticket.address}   (vncviewer {host}::{port})"),
        ("Password", given.password),
        ("Valid for", f"one connection, opened within {open_s:g} s"),
    ]
    if given.addresses:
        shown.append(("The guest itself", ", ".join(given.addresses)))
    print_item("Ticket", item, fields(shown))


@click.command("connect")
@click.argument("name", shell_complete=completed("pools"))
@click.argument("user")
@timeout_option
@output_option
@pass_context
def pool_connect(context: Context, name: str, user: str, timeout: float) -> None:
    """Get a console ticket for a user's desktop, like `vm connect`.

    Input in the viewer counts as activity; the session is disconnected when the viewer closes.
    """
    from vgpumgr.app.ticket_password import connect_desktop

    with ending_gently(context.app.stop):
        given = connect_desktop(context.app.engine, name, user, timeout)
    print_ticket(context, given)
