"""``vgpumgr sim``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import fields, output_option, print_item, say
from vgpumgr.cli.terminal import echo
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.words import counted


@click.group()
def sim() -> None:
    """The simulated fleet: up, down, status, inject, power."""


def _folder(context: Context) -> Path:
    return context.config.state_dir / "sim"


@sim.command()
@click.option(
    "-f",
    "--file",
    "file",
    help="YAML with a Fleet document; without it the last fleet, or a small one.",
)
@click.option("--enrol/--no-enrol", default=True, help="Enrol its hosts in the ledger.")
@output_option
@pass_context
def up(context: Context, file: str | None, enrol: bool) -> None:
    """Start the simulated hosts; they stay up until `sim down`."""
    from vgpumgr.cli.files import load_documents
    from vgpumgr.sim.control import last_fleet
    from vgpumgr.sim.control import up as start
    from vgpumgr.sim.fleets import SMALL

    last = last_fleet(_folder(context)) or SMALL
    fleets = load_documents(context, file).fleets if file else (last,)
    if len(fleets) != 1:
        raise UsageError(f"{file} must hold exactly one document of kind: Fleet")
    start(fleets[0], _folder(context))
    hosts = fleets[0].hosts
    say(f"fleet {fleets[0].name}: {counted(len(hosts), 'host')} up")
    if enrol:
        _enrol(context, [host.name for host in hosts])


def _enrol(context: Context, names: list[str]) -> None:
    hosts = context.app.writable_ledger.hosts()
    members = {host.name for host in hosts if host.membership is Membership.MEMBER}
    for name in (name for name in names if name not in members):
        record = HostRecord(name=name, address=f"sim://{name}")
        context.app.engine.enrol(record, install=True).raise_for_failure()
    observation = context.app.engine.refresh(names)
    gpus = sum(len(facts.gpus) for facts in observation.facts.values())
    seen = counted(len(observation.facts), "host")
    say(f"discovered {seen} with {counted(gpus, 'GPU')}")
    for name, error in observation.failed.items():
        say(f"warning: {name}: {error.message}")


@sim.command()
@output_option
@pass_context
def down(context: Context) -> None:
    """Cut the power of all simulated hosts. Defined domains, volumes and claims stay."""
    from vgpumgr.sim.control import down as stop

    stop(_folder(context))


@sim.command()
@output_option
@pass_context
def status(context: Context) -> None:
    """Is the simulated fleet up, and what is in it?"""
    from vgpumgr.sim.control import status as ask

    item: dict[str, Any] = to_plain(ask(_folder(context)))
    text = fields([(key, ", ".join(v) if isinstance(v, list) else v) for key, v in item.items()])
    print_item("SimStatus", {"name": "sim", **item}, text)


@sim.command(context_settings={"ignore_unknown_options": True})  # lie … -1
@click.argument("host")
@click.argument("fault", nargs=-1, required=True)
@output_option
@pass_context
def inject(context: Context, host: str, fault: tuple[str, ...]) -> None:
    """Make a simulated host misbehave.

    \b
    latency SECONDS | hang | unreachable | reboot | off | on | clear
    refuse VERB ERRNO COUNT      the verb fails COUNT times: refuse mdev_create EIO 2
    gpu ADDRESS lost | ecc       it falls off the bus; an uncorrectable memory error
    gpu ADDRESS remap-failed     a memory row could not be remapped: to be replaced
    gpu ADDRESS hidden           NVML gives no handle of it
    gpu ADDRESS xid NUMBER       the driver reports that Xid
    gpu ADDRESS client NAME      a program holds the GPU
    gpu ADDRESS fail WHAT COUNT  a driver call fails: unbind, create, reset, or NVML's C name
    lie VERB PATH JSON           it answers so: lie probe result.nvml.gpus.0.memory_mib -1
    setup NAME                   it is set up badly, for `doctor` to find: nouveau, iommu-off, …
    """
    from vgpumgr.sim.control import inject as send

    send(_folder(context), host, list(fault))


@sim.command()
@click.argument("host")
@click.argument("to", type=click.Choice(["off", "on", "status"]))
@output_option
@pass_context
def power(context: Context, host: str, to: str) -> None:
    """A simulated host's power switch, for a fence block to use: `h1 is off`."""
    from vgpumgr.sim.control import power as switch

    on = switch(_folder(context), host, to)
    echo(f"{host} is {'on' if on else 'off'}")
