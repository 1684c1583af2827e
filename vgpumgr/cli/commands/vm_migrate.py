"""``vgpumgr vm migrate``: a VM to another host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.progress import changing
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.outcomes import print_outcome
from vgpumgr.cli.views.users import with_users_option

if TYPE_CHECKING:
    from vgpumgr.engine.migration import MovePlan


@click.command()
@click.argument("name", shell_complete=completed("vms"))
@click.option(
    "--to",
    required=True,
    metavar="HOST",
    help="The host to move it to.",
    shell_complete=completed("hosts"),
)
@click.option("--cold", is_flag=True, help="Stop it, move it, start it again.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 7 * 86400),
    help="Seconds: live, give up after; cold, how long the guest may take to power off (60).",
)
@with_users_option
@click.option("--dry-run", is_flag=True, help="Show every check and stop.")
@output_option
@pass_context
def migrate(
    context: Context,
    name: str,
    to: str,
    cold: bool,
    timeout: float | None,
    with_users: bool,
    dry_run: bool,
) -> None:
    """Move a VM to another host: live where its devices can, or cold."""
    ledger = context.app.ledger
    ledger.vm(name)
    ledger.host(to)
    if dry_run:
        plan = context.app.engine.move_plan(
            name, to, cold=cold, timeout_s=timeout, with_users=with_users
        )
        _show_move(plan)
        return
    users = context.app.engine.users_on([name]) if cold and with_users else ()
    with changing(context, 1) as engine:
        outcome = engine.migrate(name, to, cold=cold, timeout_s=timeout, with_users=with_users)
    print_outcome(outcome, users)


def _show_move(plan: MovePlan) -> None:
    """Every check, and the refusal that the command would end with."""
    from vgpumgr.cli.views.moves import move_item, move_text
    from vgpumgr.engine.migration import refuse

    print_item("Move", move_item(plan), move_text(plan))
    refuse(plan)
