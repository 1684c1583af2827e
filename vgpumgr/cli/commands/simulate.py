"""The command `simulate`: what would fit on a changed fleet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.capacity import MemoryType
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option
from vgpumgr.cli.output import output_option, print_item, table
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.user_files import document_text
from vgpumgr.cli.views.plan_views import reason_lines
from vgpumgr.endpoints.plan_items import reasons_of
from vgpumgr.endpoints.simulations import (
    SIMULATE,
    ChangedFleet,
    LossItem,
    SimulatedVm,
    SimulationItem,
)
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.formats import counted, spanned

_REASONS = 4
_NUMBER = re.compile(r"( #|-)\d+$")


def simulation_text(item: SimulationItem) -> str:
    """Alike VMs in one row: what they are, whence, whither; then why some have no place."""
    lines = [f"new host {each['host']}: {each['layout']}" for each in item["added"]]
    lines += [f"gone: {each['vm']} from {each['was_on']}" for each in item["removed"]]
    rows = [
        [f"  {_names(vms)}", was or "new", _hosts(vms)]
        for (_, was), alike in groupby(item["vms"], key=lambda vm: (_stem(vm), vm["was_on"]))
        for vms in (list(alike),)
    ]
    lines += [table([["  VM", "FROM", "TO"], *rows])] if rows else []
    lines += [f"  {each['vm']}: stays on {each['was_on']}: {each['why']}" for each in item["kept"]]
    lines += _refusals(vm for vm in item["vms"] if vm["host"] is None)
    lines += _losses(item["losses"])
    homeless = item["homeless"] - sum(len(loss["homeless"]) for loss in item["losses"])
    placed = len(item["vms"]) - sum(vm["host"] is None for vm in item["vms"])
    if placed or homeless or not item["losses"]:
        lines.append(f"{counted(placed, 'VM')} would be placed, {homeless} would not")
    return "\n".join(lines)


def _losses(losses: Sequence[LossItem]) -> Iterator[str]:
    """Hosts that are lost alone: those whose VMs would not all have a place, then the others."""
    bad = [loss for loss in losses if loss["homeless"]]
    for loss in bad:
        names, vms = loss["homeless"], counted(loss["vms"], "VM")
        yield f"  {loss['host']} lost: no place for {len(names)} of its {vms}: {spanned(names)}"
    if losses:
        fine = len(losses) - len(bad)
        yield f"{fine} of {counted(len(losses), 'host')} may be lost alone"


def _refusals(homeless: Iterable[SimulatedVm]) -> list[str]:
    """Why they have no place: once where it is the same."""
    lines = []
    for reasons, alike in groupby(homeless, key=lambda vm: vm["reasons"]):
        first, *more = list(alike)
        others = f" and {len(more)} more" if more else ""
        lines.append(f"  no place for {first['vm']}{others}")
        lines += reason_lines(reasons_of(reasons), _REASONS, "    ")
    return lines


def _stem(vm: SimulatedVm) -> str:
    """Replicas are told together, as are those of ``--add``."""
    return _NUMBER.sub("", vm["vm"])


def _names(vms: list[SimulatedVm]) -> str:
    names = [vm["vm"] for vm in vms]
    return _stem(vms[0]) if " #" in names[0] else spanned(names)


def _hosts(vms: list[SimulatedVm]) -> str:
    """``a40-01 ×4, nowhere ×2``; a lone VM without its count."""
    counts = Counter(vm["host"] or "nowhere" for vm in vms)
    if len(vms) == 1:
        return vms[0]["host"] or "nowhere"
    return ", ".join(f"{host} ×{count}" for host, count in counts.items())


CHANGES_PENDING = 10


@click.command()
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    help="YAML file with requested VMs; - reads standard input.",
)
@click.option(
    "--add",
    multiple=True,
    metavar="PROFILE=N",
    help="N VMs with one GPU part of that profile each.",
)
@click.option(
    "--vcpus", type=click.IntRange(1, 512), default=2, show_default=True, help="Of --add."
)
@click.option("--memory", type=MemoryType(), default="4GiB", show_default=True, help="Of --add.")
@click.option(
    "--add-host",
    multiple=True,
    metavar="HOST×N|BOARD×N|FILE",
    help="Suppose more hosts: copies of one, one with N such GPUs, or those of a Fleet file.",
)
@click.option(
    "--fail",
    multiple=True,
    metavar="HOST",
    help="Suppose that this host is lost.",
    shell_complete=completed("hosts"),
)
@click.option(
    "--fail-each",
    is_flag=True,
    help="Then suppose, of each host alone, that it is lost.",
)
@click.option(
    "--remove-vm",
    multiple=True,
    metavar="NAME",
    help="Suppose that this VM is deleted.",
    shell_complete=completed("vms"),
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 10 when any VM would be placed.")
@refresh_option
@output_option
@pass_context
def simulate(
    context: Context,
    file: str | None,
    add: tuple[str, ...],
    vcpus: int,
    memory: int,
    add_host: tuple[str, ...],
    fail: tuple[str, ...],
    fail_each: bool,
    remove_vm: tuple[str, ...],
    detailed_exitcode: bool,
    refresh: bool,
) -> None:
    """Simulate a changed fleet: what would fit, and which VMs would lose their place.

    Nothing is changed. VMs of failed hosts are placed first, then the requests. Only capacity is
    simulated: disk images count as present everywhere, and whether the disks of a lost VM are
    available elsewhere is for `host evacuate` to say. Exit 5 when a VM finds no place.
    """
    given = document_text(file) if file else None
    fleets = [document_text(text) for text in add_host if Path(text).is_file()]
    asked = ChangedFleet(
        text=given.text if given else None,
        source=given.source if given else "FILE",
        add=add,
        vcpus=vcpus,
        memory_mib=memory,
        add_hosts=tuple(text for text in add_host if not Path(text).is_file()),
        fleets=tuple(each.text for each in fleets),
        fleet_sources=tuple(each.source for each in fleets),
        fail=fail,
        fail_each=fail_each,
        remove_vms=remove_vm,
        refresh=refresh,
    )
    found = context.read(SIMULATE, asked)
    print_item("Simulation", found.answer, simulation_text(found.answer))
    finish(found)
    if found.answer["homeless"]:
        raise click.exceptions.Exit(NoPlacement.exit_status)
    if detailed_exitcode and found.answer["vms"]:
        raise click.exceptions.Exit(CHANGES_PENDING)
