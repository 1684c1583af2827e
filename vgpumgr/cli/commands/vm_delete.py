"""``vgpumgr vm delete``, and what ``vgpumgr delete -f`` shares with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, say
from vgpumgr.cli.progress import changing
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.outcomes import print_outcome
from vgpumgr.model.words import counted


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@click.option("--keep-disks", is_flag=True, help="Keep the volumes created for the VMs.")
@click.option("--force", is_flag=True, help="Power running VMs off.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(
    context: Context, names: tuple[str, ...], keep_disks: bool, force: bool, yes: bool
) -> None:
    """Delete VMs, with the disks and GPU parts created for them."""
    from vgpumgr.cli.questions import confirm

    for name in names:
        context.app.ledger.vm(name)
    delete_vms(context, names, keep_disks=keep_disks, force=force, ask=confirm(yes=yes))


def delete_vms(
    context: Context,
    names: Sequence[str],
    *,
    keep_disks: bool,
    force: bool,
    ask: Callable[[str], None],
) -> None:
    """List what goes, ask, delete."""
    names = tuple(dict.fromkeys(names))
    ledger = context.app.ledger
    volumes = [f"{p}/{n}" for vm in ledger.vms() if vm.name in set(names) for p, n in vm.volumes]
    if volumes and not keep_disks:
        say(f"volumes that go: {', '.join(volumes[:20])}")
        if len(volumes) > 20:
            say(f"  and {len(volumes) - 20} more")
    some = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
    ask(f"delete {counted(len(names), 'VM')}: {some}?")
    with changing(context, len(names)) as engine:
        outcome = engine.delete(names, keep_disks=keep_disks, force=force)
    print_outcome(outcome)
