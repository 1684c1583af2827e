"""The command `heal`: remedies for drift, listed and applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.gpu_views import one_gpu
from vgpumgr.cli.views.outcome_views import outcome_text
from vgpumgr.cli.views.reports import compared_text, print_report, report_lines, unread_lines
from vgpumgr.endpoints import healing
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import UsageError
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.endpoints.endpoint import Result


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


def print_plan(planned: healing.HealPlanItem) -> None:
    """A table, with what to type below each line that heal does nothing about."""
    aside = {key: value for key, value in planned.items() if key != "items"}
    print_report("Heal", planned["items"], COLUMNS, beside=aside, text=plan_text(planned))


def plan_text(planned: healing.HealPlanItem) -> str:
    """The same for people."""
    return "\n".join(_lines(planned))


def print_healed(healed: healing.HealEnd) -> None:
    """What was done, and what is left."""
    done, left = outcome_text(healed), "left:" if healed["left"] else ""
    words = [done, *healed["errors"], left, plan_text(healed["after"])]
    print_item("Heal", healed, "\n".join(filter(None, words)))


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    yield item["text"]
    if item["next"]:
        yield f"next: {item['next']}"


def _lines(planned: healing.HealPlanItem) -> Iterator[str]:
    yield from report_lines(planned["items"], COLUMNS, _below)
    yield from unread_lines(planned["not_read"])
    if not planned["items"]:
        yield compared_text("nothing to heal", planned)


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
    if lift is not None:
        _lift(context, lift, alone=not (hosts or vms or kinds or apply_))
        return
    asked = healing.HealRequest(hosts=hosts, vms=vms, kinds=tuple(map(DriftKind, kinds)))
    planned = context.read(healing.PLAN_HEALING, asked)
    for vm in planned.answer["skipped"]:
        say(f"{vm} was not compared: an operation is working on it")
    to_do = sum(each["by"] == "heal" for each in planned.answer["items"])
    if not apply_ or not to_do:
        print_plan(planned.answer)
        if to_do:
            things = "it" if to_do == 1 else f"these {to_do}"
            say(f"nothing was changed; to carry out {things}: {_again(hosts, vms, kinds)}")
        _end(planned, planned.answer)
        return
    say(plan_text(planned.answer))
    confirm(yes=yes)(f"carry out {counted(to_do, 'remedy').replace('remedys', 'remedies')}?")
    healed = carry_out(context, healing.HEAL, asked)
    print_healed(healed.answer)
    _end(healed, healed.answer["after"])


def _again(hosts: tuple[str, ...], vms: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """The same command, and this time it does it."""
    chosen = [*hosts, *(f"--vm {vm}" for vm in vms), *(f"--kind {kind}" for kind in kinds)]
    return " ".join(["vgpumgr heal", *chosen, "--apply"])


def _lift(context: Context, gpu: str, *, alone: bool) -> None:
    if not alone:
        raise UsageError("--lift takes no other arguments", next=f"vgpumgr heal --lift {gpu}")
    context.act(healing.LIFT_GPU, one_gpu(gpu))
    say(f"{gpu} accepts VMs again")


def _end(result: Result[Any], left: healing.HealPlanItem) -> None:
    """Exit 7 for what was not read or not healed, 10 for what is to be done by anybody."""
    finish(result)
    if any(each["by"] in {"heal", "you"} for each in left["items"]):
        raise click.exceptions.Exit(DIFFERENCES)
