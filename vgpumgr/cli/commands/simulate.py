"""``vgpumgr simulate``."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.commands.capacity import MemoryType
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.files import load_documents, load_vms
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.profile_names import known_profile
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.simulations import simulation_item, simulation_text
from vgpumgr.model.errors import NoPlacement, UsageError
from vgpumgr.model.size import parse_mib
from vgpumgr.model.vm import GpuRequest, VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.view import LedgerView
    from vgpumgr.engine.whatif.added import Added

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
    from vgpumgr.engine.outlook import placing
    from vgpumgr.engine.view import read_view
    from vgpumgr.engine.whatif.simulate import Supposed
    from vgpumgr.engine.whatif.simulate import simulate as run

    app = context.app
    with refreshed(context, refresh):
        view = read_view(app.ledger)
        asked = [*(load_vms(context, file) if file else ())]
        asked += _asked(context, view, add, vcpus, memory)
        supposed = Supposed(
            asked=tuple(asked),
            added=tuple(_added(context, add_host, view)),
            failed=fail,
            removed=remove_vm,
        )
        if supposed == Supposed():
            raise UsageError(
                "nothing to simulate", next="--add A40-8Q=40, --fail HOST, --add-host HOST×2, …"
            )
        place = placing(context.config.policy, app.expected, app.ledger, time.time())
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


def _added(context: Context, texts: tuple[str, ...], view: LedgerView) -> list[Added]:
    from vgpumgr.app import supposed

    found: list[Added] = []
    for text in texts:
        if Path(text).is_file():
            fleets = load_documents(context, text).fleets
            if not fleets:
                raise UsageError(f"{text} holds no document of kind: Fleet")
            found += supposed.of_fleets(fleets)
        else:
            taken = [host.name for each in found for host in each.options[0].hosts]
            found.append(supposed.named(text, view, taken))
    return found
