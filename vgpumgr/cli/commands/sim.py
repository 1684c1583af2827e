"""The commands on the simulated fleet: up, down, status, add, inject and power."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import fields, output_option, print_item, say
from vgpumgr.cli.terminal import echo
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.fault_forms import help_text


@click.group()
def sim() -> None:
    """The simulated fleet: up, add, down, status, inject, power."""


def _folder(context: Context) -> Path:
    return context.config.state_dir / "sim"


@sim.command()
@click.option(
    "-f",
    "--file",
    "file",
    help="YAML file with a Fleet document; default: the last fleet, or a small one.",
)
@click.option("--enrol/--no-enrol", default=True, help="Enrol its hosts in the ledger.")
@click.option(
    "--redfish",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Start BMCs and a PDU, too, by Redfish at this port of 127.0.0.1; 0: a free one.",
)
@output_option
@pass_context
def up(context: Context, file: str | None, enrol: bool, redfish: int | None) -> None:
    """Start the simulated hosts; they stay up until `sim down`."""
    from vgpumgr.cli.user_files import load_documents
    from vgpumgr.sim.control import SMALL, last_fleet
    from vgpumgr.sim.control import redfish as start_redfish
    from vgpumgr.sim.control import up as start

    last = last_fleet(_folder(context)) or SMALL
    fleets = load_documents(context, file).fleets if file else (last,)
    if len(fleets) != 1:
        raise UsageError(f"{file} must hold exactly one document of kind: Fleet")
    start(fleets[0], _folder(context))
    hosts = fleets[0].hosts
    say(f"fleet {fleets[0].name}: {counted(len(hosts), 'host')} up")
    if redfish is not None:
        found = start_redfish(_folder(context), redfish)
        say(f"Redfish at {found.url}, user {found.user}, password in {found.password_file}")
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
    """Show whether the simulated fleet is up, and its hosts."""
    from vgpumgr.sim.control import status as ask

    item: dict[str, Any] = to_plain(ask(_folder(context)))
    text = fields([(key, ", ".join(v) if isinstance(v, list) else v) for key, v in item.items()])
    print_item("SimStatus", {"name": "sim", **item}, text)


@sim.command()
@click.argument("name", required=False)
@click.option("-f", "--file", "file", help="YAML file with a Fleet document: all of its hosts.")
@click.option("--board", default="T4", show_default=True, help="Board of the GPUs of NAME.")
@click.option(
    "--count", type=click.IntRange(0, 16), default=1, show_default=True, help="Number of GPUs."
)
@click.option("--enrol/--no-enrol", default=True, help="Enrol them in the ledger.")
@output_option
@pass_context
def add(
    context: Context, name: str | None, file: str | None, board: str, count: int, enrol: bool
) -> None:
    """Add hosts to the running simulated fleet: NAME, or those of a file."""
    from vgpumgr.sim.control import add as switch_on

    if (name is None) == (file is None):
        raise UsageError("name a host, or a file", next="vgpumgr sim add NAME --board T4 --count 2")
    hosts = _of_file(context, file) if file else (_host(context, str(name), board, count),)
    switch_on(hosts, _folder(context))
    say(f"{counted(len(hosts), 'host')} more up")
    if enrol:
        _enrol(context, [host.name for host in hosts])


def _of_file(context: Context, file: str) -> tuple[SimHost, ...]:
    from vgpumgr.cli.user_files import load_documents

    hosts = [host for fleet in load_documents(context, file).fleets for host in fleet.hosts]
    if not hosts:
        raise UsageError(f"{file} holds no host", next="add a document with kind: Fleet")
    return tuple(hosts)


def _host(context: Context, name: str, board: str, count: int) -> SimHost:
    """The host of the flags, by the rules of a Fleet document."""
    import yaml

    from vgpumgr.endpoints.documents import checked
    from vgpumgr.spec import COMMAND_LINE

    gpus = [{"board": board, "count": count}] if count else []
    fleet = {"kind": "Fleet", "name": "added", "hosts": [{"name": name, "gpus": gpus}]}
    text = yaml.safe_dump({"apiVersion": API_VERSION, **fleet})
    [host] = checked(context.app.ledger, text.encode(), COMMAND_LINE).fleets[0].hosts
    return host


@sim.command(
    help=f"Inject a fault into a simulated host.\n\n\b\n{help_text()}",
    context_settings={"ignore_unknown_options": True},  # lie … -1
)
@click.argument("host", shell_complete=completed("hosts"))
@click.argument("fault", nargs=-1, required=True)
@output_option
@pass_context
def inject(context: Context, host: str, fault: tuple[str, ...]) -> None:
    """Its help is the table of ``vgpumgr/sim/fault_forms.py``."""
    from vgpumgr.sim.control import inject as send

    send(_folder(context), host, list(fault))


@sim.command()
@click.argument("host", shell_complete=completed("hosts"))
@click.argument("to", type=click.Choice(["off", "on", "status"]))
@output_option
@pass_context
def power(context: Context, host: str, to: str) -> None:
    """Switch a simulated host on or off, or print its state: `h1 is off`."""
    from vgpumgr.sim.control import power as switch

    on = switch(_folder(context), host, to)
    echo(f"{host} is {'on' if on else 'off'}")
