"""``vgpumgr pool connect``."""

from __future__ import annotations

import click

from vgpumgr.cli.commands.vm_connect import print_ticket, timeout_option
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.interrupts import ending_gently
from vgpumgr.cli.output import output_option


@click.command()
@click.argument("name")
@click.argument("user")
@timeout_option
@output_option
@pass_context
def connect(context: Context, name: str, user: str, timeout: float) -> None:
    """Get a ticket to the screen of the desktop on which a user is, as `vm connect` gives one.

    What the viewer does counts as use of the session; it is disconnected when the viewer leaves.
    """
    from vgpumgr.app.tickets.asking import connect_desktop

    with ending_gently(context.app.stop):
        given = connect_desktop(context.app.engine, name, user, timeout)
    print_ticket(context, given)
