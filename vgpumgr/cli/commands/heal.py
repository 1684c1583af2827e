"""The command `heal`: remedies for drift, listed and applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, print_item, say
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.outcome_views import outcome_text
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.endpoints.outcomes import outcome_item
from vgpumgr.model.codec import to_plain
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import PartlyDone, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.operation import TaskState

if TYPE_CHECKING:
    from vgpumgr.engine.heal.remedy import DriftSelection, HealPlan, HealReport, Remedy


COLUMNS = (
    Column("HOST", "host"),
    Column("VM", "vm"),
    Column("KIND", "kind"),
    Column("BY", "by"),
    Column("REMEDY", "remedy"),
    Column("DIFFERENCE", "text", wide=True),
    Column("SUBJECT", "subject", wide=True),
    Column("GPU", "gpu", wide=True),
    Column("NEXT", "next", wide=True),
)


def print_plan(planned: HealPlan) -> None:
    """A table, with what to type below each line that heal does nothing about."""
    items = [_item(each) for each in planned.remedies]
    unread = [to_plain(each) for each in planned.not_read]
    text = plan_text(planned)
    print_report("Heal", items, COLUMNS, beside={"not_read": unread}, text=text)


def plan_text(planned: HealPlan) -> str:
    """The same for people."""
    return "\n".join(_lines(planned, [_item(each) for each in planned.remedies]))


def print_healed(healed: HealReport) -> None:
    """What was done, and what is left."""
    left = [_item(each) for each in healed.left.remedies]
    errors = [each.message for each in healed.errors]
    item = {**outcome_item(healed.outcome), "left": left, "errors": errors}
    done = outcome_text(outcome_item(healed.outcome))
    words = [*([done] if done else []), *errors, "left:" if left else "", plan_text(healed.left)]
    print_item("Heal", item, "\n".join(each for each in words if each))


def _item(remedy: Remedy) -> dict[str, Any]:
    found = remedy.drift
    return {
        "name": f"{found.host}/{found.vm or found.gpu}/{found.kind}/{found.subject}",
        "host": found.host,
        "gpu": found.gpu,
        "vm": found.vm,
        "subject": found.subject,
        "kind": str(found.kind),
        "text": found.text,
        "by": "heal" if remedy.ours else "nobody" if remedy.way == "leave" else "you",
        "way": str(remedy.way),
        "remedy": remedy.text,
        "next": remedy.next,
    }


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    yield item["text"]
    if item["next"]:
        yield f"next: {item['next']}"


def _lines(planned: HealPlan, items: list[dict[str, Any]]) -> Iterator[str]:
    yield from report_lines(items, COLUMNS, _below)
    for part in planned.not_read:
        yield f"not read  {part.host}  {part.part or 'the host'}: {part.why}"
    if not items:
        compared = f"{counted(planned.vms, 'VM')} on {counted(planned.hosts, 'host')}"
        yield f"nothing to heal{' in what was read' if planned.not_read else ''}: {compared}"


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
    from vgpumgr.engine.heal.remedy import DriftSelection

    context.app.require_hosts()
    if lift is not None:
        _lift(context, lift, alone=not (hosts or vms or kinds or apply_))
        return
    chosen = DriftSelection(
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


def _apply(context: Context, chosen: DriftSelection, planned: HealPlan) -> HealReport:
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


def _end_healed(healed: HealReport) -> None:
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
