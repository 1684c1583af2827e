"""The command `simulate`: what would fit on a changed fleet."""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.capacity import MemoryType
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import known_profile, refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item, table
from vgpumgr.cli.user_files import load_documents, load_vms
from vgpumgr.cli.views.plan_views import reason_lines
from vgpumgr.endpoints.plan_items import reason_items
from vgpumgr.model.errors import NoPlacement, UsageError
from vgpumgr.model.formats import counted, parse_mib, spanned
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.vm import GpuRequest, VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.inventory.ledger_view import LedgerView
    from vgpumgr.engine.whatif.hypothetical_hosts import AddedHosts
    from vgpumgr.engine.whatif.simulation import Simulation, VmFate


_REASONS = 4
_NUMBER = re.compile(r"( #|-)\d+$")


def simulation_item(found: Simulation) -> dict[str, Any]:
    """The JSON of a simulation."""
    return {
        "name": "simulation",
        "vms": [_fate(fate) for fate in found.fates],
        "kept": [{"vm": vm.name, "was_on": vm.host, "why": why} for vm, why in found.kept],
        "added": [{"host": host, "layout": text} for host, text in found.added],
        "removed": [{"vm": vm.name, "was_on": vm.host} for vm in found.removed],
        "homeless": found.homeless,
    }


def _fate(fate: VmFate) -> dict[str, Any]:
    decision = fate.decision
    placed = decision if isinstance(decision, Placed) else None
    reasons = decision.reasons if isinstance(decision, NotPlaced) else ()
    parts = placed.assignments if placed else ()
    return {
        "vm": decision.request.name,
        "was_on": fate.was_on or None,
        "host": placed and placed.host,
        "parts": [{"profile": each.offer.profile, "device": each.device} for each in parts],
        "reasons": reason_items(reasons),
    }


def simulation_text(found: Simulation) -> str:
    """Alike VMs in one row: what they are, whence, whither; then why some have no place."""
    item = simulation_item(found)
    lines = [f"new host {each['host']}: {each['layout']}" for each in item["added"]]
    lines += [f"gone: {each['vm']} from {each['was_on']}" for each in item["removed"]]
    rows = [
        [f"  {_names(vms)}", was or "new", _hosts(vms)]
        for (_, was), alike in groupby(item["vms"], key=lambda vm: (_stem(vm), vm["was_on"]))
        for vms in (list(alike),)
    ]
    lines += [table([["  VM", "FROM", "TO"], *rows])] if rows else []
    lines += [f"  {each['vm']}: stays on {each['was_on']}: {each['why']}" for each in item["kept"]]
    refused = [each.decision for each in found.fates if isinstance(each.decision, NotPlaced)]
    for reasons, alike in groupby(refused, key=lambda each: each.reasons):
        first, *more = list(alike)
        others = f" and {len(more)} more" if more else ""
        lines.append(f"  no place for {first.request.name}{others}")
        lines += reason_lines(reasons, _REASONS, "    ")
    placed = len(item["vms"]) - sum(vm["host"] is None for vm in item["vms"])
    return "\n".join(
        [*lines, f"{counted(placed, 'VM')} would be placed, {item['homeless']} would not"]
    )


def _stem(vm: dict[str, Any]) -> str:
    """Replicas are told together, as are those of ``--add``."""
    return _NUMBER.sub("", str(vm["vm"]))


def _names(vms: list[dict[str, Any]]) -> str:
    names = [str(vm["vm"]) for vm in vms]
    return _stem(vms[0]) if " #" in names[0] else spanned(names)


def _hosts(vms: list[dict[str, Any]]) -> str:
    """``a40-01 ×4, nowhere ×2``; a lone VM without its count."""
    counts = Counter(vm["host"] or "nowhere" for vm in vms)
    if len(vms) == 1:
        return str(vms[0]["host"] or "nowhere")
    return ", ".join(f"{host} ×{count}" for host, count in counts.items())


CHANGES_PENDING = 10
_MOST = 10_000
_ADD = re.compile(r"(?P<profile>[^=]+)(=(?P<count>\d+))?")


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
    remove_vm: tuple[str, ...],
    detailed_exitcode: bool,
    refresh: bool,
) -> None:
    """Simulate a changed fleet: what would fit, and which VMs would lose their place.

    Nothing is changed. VMs of failed hosts are placed first, then the requests. Only capacity is
    simulated: disk images count as present everywhere, and whether the disks of a lost VM are
    available elsewhere is for `host evacuate` to say. Exit 5 when a VM finds no place.
    """
    from vgpumgr.engine.inventory.ledger_view import read_view
    from vgpumgr.engine.operations.expected_requests import place_function
    from vgpumgr.engine.whatif.simulation import Supposition
    from vgpumgr.engine.whatif.simulation import simulate as run

    app = context.app
    with refreshed(context, refresh):
        view = read_view(app.ledger)
        asked = [*(load_vms(context, file) if file else ())]
        asked += _asked(context, view, add, vcpus, memory)
        supposed = Supposition(
            asked=tuple(asked),
            added=tuple(_added(context, add_host, view)),
            failed=fail,
            removed=remove_vm,
        )
        if supposed == Supposition():
            raise UsageError(
                "nothing to simulate", next="--add A40-8Q=40, --fail HOST, --add-host HOST×2, …"
            )
        place = place_function(context.config.policy, app.expected, app.ledger, time.time())
        found = run(view, supposed, place)
        print_item("Simulation", simulation_item(found), simulation_text(found))
    if found.homeless:
        raise click.exceptions.Exit(NoPlacement.exit_status)
    if detailed_exitcode and found.fates:
        raise click.exceptions.Exit(CHANGES_PENDING)


def _asked(
    context: Context, view: LedgerView, add: tuple[str, ...], vcpus: int, memory: int
) -> list[VmSpec]:
    found = []
    for text in add:
        given = _ADD.fullmatch(text)
        count = int(given["count"] or 1) if given else 0
        if given is None or not 0 < count <= _MOST:
            raise UsageError(f"--add {text}: write PROFILE=N, N at most {_MOST}")
        if any(host.name == given["profile"] for host in view.hosts):
            raise UsageError(
                f"--add {text}: {given['profile']} is a host, and --add takes a profile",
                next=f"vgpumgr simulate --add-host {given['profile']}×{count}",
            )
        gpus = (_part(context, given["profile"]),)
        found += [
            VmSpec(name=f"{given['profile']} #{n}", vcpus=vcpus, memory_mib=memory, gpus=gpus)
            for n in range(1, count + 1)
        ]
    return found


def _part(context: Context, text: str) -> GpuRequest:
    """By size where it is one, else by name; UnknownProfile for what is neither."""
    try:
        return GpuRequest(memory_mib=parse_mib(text))
    except ValueError:
        return GpuRequest(profile=known_profile(context, text))


def _added(context: Context, texts: tuple[str, ...], view: LedgerView) -> list[AddedHosts]:
    from vgpumgr.app import hypothetical_hosts

    found: list[AddedHosts] = []
    for text in texts:
        if Path(text).is_file():
            fleets = load_documents(context, text).fleets
            if not fleets:
                raise UsageError(f"{text} holds no document of kind: Fleet")
            found += hypothetical_hosts.hosts_of_fleets(fleets)
        else:
            taken = [host.name for each in found for host in each.options[0].hosts]
            found.append(hypothetical_hosts.host_by_words(text, view, taken))
    return found
