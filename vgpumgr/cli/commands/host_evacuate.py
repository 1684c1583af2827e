"""``vgpumgr host evacuate``: the VMs of a lost host recreated, once it is proven off."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.progress import changing
from vgpumgr.cli.questions import at_a_terminal, confirm, typed
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.draining import evacuation_item, evacuation_text
from vgpumgr.model.errors import PartlyDone, UsageError
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.evacuation.plan import EvacuationPlan

_ASK = "?"


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option(
    "--confirm-off",
    is_flag=False,
    flag_value=_ASK,
    metavar="[NAME]",
    help="Confirm that it is off and stays off: its name, typed once more.",
)
@click.option("--dry-run", is_flag=True, help="Show what would happen to each VM and stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; this does not confirm that it is off.")
@output_option
@pass_context
def evacuate(
    context: Context, name: str, confirm_off: str | None, dry_run: bool, yes: bool
) -> None:
    """Recreate the VMs of a lost host elsewhere: only those whose disks other hosts see.

    It starts when the host's fence block has switched it off and its status says off, or with
    --confirm-off.
    """
    app = context.app
    record = app.ledger.host(name)
    word = confirm_off is not None
    if dry_run:
        plan = app.engine.evacuation_plan(name, will_not_boot=word)
        print_item("Evacuation", evacuation_item(plan), evacuation_text(plan))
        _refuse(plan)
        return
    total = sum(vm.host == name for vm in app.ledger.vms())
    if confirm_off is not None:
        _require_typed(name, confirm_off)
        app.fences.confirm(name, f"{getpass.getuser()}@{socket.gethostname()}")
    elif record.fence is not None:
        vms = counted(total, "VM")
        confirm(yes=yes)(f"switch {name} off and recreate its {vms} elsewhere?")
    with changing(context, total) as engine:
        plan, outcome = engine.evacuate(name, will_not_boot=word)
    print_item("Evacuation", evacuation_item(plan, outcome), evacuation_text(plan))
    outcome.raise_for_failure()
    _refuse(plan)


def _require_typed(name: str, given: str) -> None:
    """The host's name, typed a second time: ``-y`` is no word for a machine being off."""
    if given == _ASK:
        given = _ask(name)
    if given != name:
        raise UsageError(
            f"{given!r} is not {name}: nothing was changed", next=f"--confirm-off {name}"
        )


def _ask(name: str) -> str:
    if not at_a_terminal():
        raise UsageError(
            f"is {name} off, and does it not boot by itself?",
            why="there is no terminal to confirm at",
            next=f"--confirm-off {name}",
        )
    danger = f"{name} must be off and stay off: a VM that also ran there would corrupt its disks."
    return typed(f"{danger}\nType its name")


def _refuse(plan: EvacuationPlan) -> None:
    staying = [each for each in plan.staying if not each.pool]
    if staying:
        raise PartlyDone(
            f"{counted(len(staying), 'VM')} of {plan.lost.name} cannot be recreated",
            why="; ".join(f"{each.vm.name}: {each.why}" for each in staying[:5]),
            next=staying[0].next,
        )
