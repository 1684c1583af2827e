"""``vgpumgr pool connect``."""

from __future__ import annotations

import click

from vgpumgr.cli.commands.vm_connect import print_ticket, timeout_option
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.interrupts import ending_gently
from vgpumgr.cli.output import output_option
from vgpumgr.cli.selectors import completed


@click.command()
@click.argument("name", shell_complete=completed("pools"))
@click.argument("user")
@timeout_option
@output_option
@pass_context
def connect(context: Context, name: str, user: str, timeout: float) -> None:
    """Get a console ticket for a user's desktop, like `vm connect`.

    Input in the viewer counts as activity; the session is disconnected when the viewer closes.
    """
    from vgpumgr.app.tickets.asking import connect_desktop

    with ending_gently(context.app.stop):
        given = connect_desktop(context.app.engine, name, user, timeout)
    print_ticket(context, given)
