"""``vgpumgr heal``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import list_options, say
from vgpumgr.cli.progress import changing
from vgpumgr.cli.questions import confirm
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.heals import plan_text, print_healed, print_plan
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import PartlyDone, UsageError
from vgpumgr.model.journal import TaskState
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.heal.report import Chosen, Healed, HealPlan

DIFFERENCES = 10


@click.command()
@click.argument("hosts", nargs=-1, shell_complete=completed("hosts"))
@click.option(
    "--vm",
    "vms",
    multiple=True,
    metavar="NAME",
    help="Only this VM; may be repeated.",
    shell_complete=completed("vms"),
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([str(kind) for kind in DriftKind]),
    help="Only this kind of difference, as drift lists it; may be repeated.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Carry the plan out; without it, only show the plan."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--lift",
    metavar="GPU",
    help="Lift the quarantine of a healthy GPU: its id, or HOST/DEVICE.",
)
@list_options
@pass_context
def heal(
    context: Context,
    hosts: tuple[str, ...],
    vms: tuple[str, ...],
    kinds: tuple[str, ...],
    apply_: bool,
    yes: bool,
    lift: str | None,
) -> None:
    """Repair what drift lists on these hosts (default: all), as far as vgpumgr owns it.

    Without --apply nothing is changed: the table lists what heal would do and what is left to you.
    With --apply all repairs run as one operation, and the result is checked again. Exit 10 when
    anything is to be done or left, 7 when a host could not be read or a repair failed.
    """
    from vgpumgr.engine.heal.report import Chosen

    context.app.require_hosts()
    if lift is not None:
        _lift(context, lift, alone=not (hosts or vms or kinds or apply_))
        return
    chosen = Chosen(
        hosts=tuple(context.app.ledger.host(name).name for name in hosts),
        vms=frozenset(context.app.ledger.vm(name).name for name in vms),
        kinds=frozenset(map(DriftKind, kinds)),
    )
    planned = context.app.engine.heal_plan(chosen)
    for vm in planned.skipped:
        say(f"{vm} was not compared: an operation is working on it")
    if not apply_ or not planned.to_do:
        print_plan(planned)
        if planned.to_do:
            things = "it" if len(planned.to_do) == 1 else f"these {len(planned.to_do)}"
            say(f"nothing was changed; to carry out {things}: {_again(hosts, vms, kinds)}")
        _end(planned)
        return
    say(plan_text(planned))
    confirm(yes=yes)(
        f"carry out {counted(len(planned.to_do), 'remedy').replace('remedys', 'remedies')}?"
    )
    healed = _apply(context, chosen, planned)
    print_healed(healed)
    _end_healed(healed)


def _again(hosts: tuple[str, ...], vms: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """The same command, and this time it does it."""
    chosen = [*hosts, *(f"--vm {vm}" for vm in vms), *(f"--kind {kind}" for kind in kinds)]
    return " ".join(["vgpumgr heal", *chosen, "--apply"])


def _lift(context: Context, gpu: str, *, alone: bool) -> None:
    if not alone:
        raise UsageError("--lift takes no other arguments", next=f"vgpumgr heal --lift {gpu}")
    context.app.engine.lift(_gpu_id(context, gpu))
    say(f"{gpu} accepts VMs again")


def _gpu_id(context: Context, name: str) -> str:
    """By its id, a beginning of it that no other has, or HOST/DEVICE; else as it was typed."""
    found = [each.id for each in context.app.ledger.gpus() if each.is_called(name)]
    return found[0] if len(found) == 1 else name


def _apply(context: Context, chosen: Chosen, planned: HealPlan) -> Healed:
    with changing(context, len(planned.to_do)) as engine:
        return engine.heal(chosen)


def _end(planned: HealPlan) -> None:
    """Exit 7 for what was not read, 10 for what is to be done by anybody."""
    if planned.not_read:
        hosts = dict.fromkeys(each.host for each in planned.not_read)
        parts = [f"{each.host}: {each.part or 'the host'}: {each.why}" for each in planned.not_read]
        raise PartlyDone(
            f"{counted(len(hosts), 'host')} could not be read completely",
            why="; ".join(parts[:5]),
            next="vgpumgr doctor",
        )
    if planned.to_do or planned.for_you:
        raise click.exceptions.Exit(DIFFERENCES)


def _end_healed(healed: Healed) -> None:
    bad = [vm for vm in healed.outcome.vms if vm.state is not TaskState.DONE]
    if healed.outcome.interrupted or len(bad) == len(healed.outcome.vms) == 1:
        healed.outcome.raise_for_failure()
    failed = [f"{vm.vm} on {vm.host}: {vm.error or vm.state}" for vm in bad]
    failed += [error.message for error in healed.errors]
    if failed:
        raise PartlyDone(
            f"{counted(len(failed), 'thing')} could not be healed",
            why="; ".join(failed[:5]),
            next="vgpumgr heal",
        )
    _end(healed.left)
