"""The commands on enrolled hosts: list, show, probe, trust, cordon, remove, upgrade, migration."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.host_add import add
from vgpumgr.cli.commands.host_drain import drain, maintenance, take_again, undrain
from vgpumgr.cli.commands.host_evacuate import evacuate, fence
from vgpumgr.cli.options import Selector, matches, refresh_option, refreshed, selector_option
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.running_command import ending_gently
from vgpumgr.cli.terminal import confirm, one_line
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.host_views import (
    helper_text,
    host_item,
    host_text,
    migration_text,
    probe_summary,
)
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.errors import (
    HostUnreachable,
    NotFound,
    OutcomeUnknown,
    PartlyDone,
    UsageError,
)
from vgpumgr.model.formats import format_mib
from vgpumgr.model.host import AUTO, DECLARED, HostRecord

if TYPE_CHECKING:
    from vgpumgr.engine.inventory.observation import Observation


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--address", help="Name or IP address at which other hosts reach its QEMU.")
@click.option("--no-tls", is_flag=True, help="Send memory unencrypted: only on a trusted network.")
@click.option("--tls-name", help="Name in its certificate, if not the address.")
@click.option("--bandwidth", help="Bandwidth limit per second, like 500MiB.")
@click.option("--off", is_flag=True, help="Accept no live migrations any more.")
@output_option
@pass_context
def migration(context: Context, /, name: str, off: bool, **options: Any) -> None:
    """Set where live migrations are sent to: the migration block of a Host document.

    \b
    vgpumgr host migration gpu2 --address 10.77.0.12
    """
    record = context.app.ledger.host(name)
    if off == bool(options["address"]):
        raise UsageError(
            "either --address or --off",
            next=f"vgpumgr host migration {name} --address ADDRESS",
        )
    wanted = None if off else _address(record, options)
    context.app.writable_ledger.update_host(replace(record, migration=wanted))
    say(f"{name}: {migration_text(wanted) if wanted else 'accepts no live migrations'}")


def _address(record: HostRecord, options: dict[str, Any]) -> MigrationAddress | None:
    """Flags become the same document a file would hold, and go through the same checks."""
    from vgpumgr.spec import COMMAND_LINE, load

    block: dict[str, Any] = {"address": options["address"], "tls": not options["no_tls"]}
    for key in ("tls_name", "bandwidth"):
        if options[key] is not None:
            block[key] = options[key]
    document = {
        "apiVersion": API_VERSION,
        "kind": "Host",
        "name": record.name,
        "address": record.address,
        "migration": block,
    }
    return load(json.dumps(document, ensure_ascii=False).encode(), COMMAND_LINE).hosts[0].migration


COLUMNS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("ADDRESS", "address"),
    Column("GPUS", "gpu_count"),
    Column("MODELS", "models"),
    Column("CPUS", "cpus"),
    Column("MEMORY", lambda host: format_mib(host["memory_mib"]) if host["memory_mib"] else ""),
    Column("SEEN", lambda host: age(host["observed_at"])),
    Column("CPU", "cpu_model", wide=True),
    Column("KERNEL", lambda host: host["versions"].get("kernel"), wide=True),
    Column("LIBVIRT", lambda host: host["versions"].get("libvirt"), wide=True),
    Column("QEMU", lambda host: host["versions"].get("qemu"), wide=True),
    Column("DRIVER", lambda host: host["versions"].get("driver"), wide=True),
    Column("HELPER", helper_text, wide=True),
)


@click.group()
def host() -> None:
    """Hosts: add, list, show, probe, cordon, drain, maintenance, fence, evacuate, remove, …"""


for command in (add, migration, drain, undrain, maintenance, fence, evacuate):
    host.add_command(command)


@host.command("list")
@selector_option
@refresh_option
@list_options
@pass_context
def list_(context: Context, selector: Selector, refresh: bool) -> None:
    """List hosts."""
    with refreshed(context, refresh):
        hosts = [each for each in context.app.ledger.hosts() if matches(each.labels, selector)]
        refusals = context.app.ledger.refusals()
        print_list("Host", [host_item(each, refusals) for each in hosts], COLUMNS)


@host.command()
@click.argument("name", shell_complete=completed("hosts"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one host."""
    item = host_item(context.app.ledger.host(name), context.app.ledger.refusals())
    print_item("Host", item, host_text(item))


@host.command()
@click.argument("names", nargs=-1, shell_complete=completed("hosts"))
@output_option
@pass_context
def probe(context: Context, names: tuple[str, ...]) -> None:
    """Probe hosts (default: all) and record the observation."""
    app = context.app
    for name in names:
        app.ledger.host(name)
    app.require_hosts()
    observation = app.engine.refresh(names)
    for name in sorted(observation.facts):
        say(f"{name}: {probe_summary(app.writable_ledger.host(name))}")
    for line in observation.set_aside:
        say(line)
    _fail(observation)


def _fail(observation: Observation) -> None:
    failed = dict(observation.failed)
    for name, error in sorted(failed.items()):
        why = f" ({error.why})" if error.why else ""
        say(one_line(f"{name}: {error.message}{why}"))
    if failed and not observation.facts and len(failed) == 1:
        error = next(iter(failed.values()))
        if not isinstance(error, OutcomeUnknown):
            error.next = "vgpumgr doctor"
        raise error
    if (
        failed
        and not observation.facts
        and all(isinstance(error, HostUnreachable) for error in failed.values())
    ):
        raise HostUnreachable(
            f"none of {len(failed)} hosts could be reached", next="vgpumgr doctor"
        )
    if failed:
        raise PartlyDone(
            f"{len(failed)} of {len(failed) + len(observation.facts)} hosts could not be probed",
            next="vgpumgr doctor",
        )


@host.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--fingerprint", required=True, help="Fingerprint of the new SSH key, SHA256:…")
@output_option
@pass_context
def trust(context: Context, name: str, fingerprint: str) -> None:
    """Pin a host's new SSH key after it changed for a known reason."""
    from vgpumgr.app.enrolment import trust as pin

    pin(context.app, name, fingerprint)
    say(f"{name}: key pinned")


@host.command("set")
@click.argument("names", nargs=-1, shell_complete=completed("hosts"))
@selector_option
@click.option("--all", "every", is_flag=True, help="Every host of the fleet.")
@click.option(
    "--layout",
    type=click.Choice([DECLARED, AUTO]),
    required=True,
    help="Who partitions GPUs: Layouts alone, or VMs as they need empty ones.",
)
@output_option
@pass_context
def set_(
    context: Context, names: tuple[str, ...], selector: Selector, every: bool, layout: str
) -> None:
    """Change the settings of hosts, by name or by label.

    \b
    vgpumgr host set gpu1 gpu2 --layout auto
    vgpumgr host set -l use=desktops --layout auto
    """
    for record in _chosen(context, names, selector, every=every):
        if record.layout != layout:
            context.app.writable_ledger.update_host(replace(record, layout=layout))
        say(f"{record.name}: layout {layout}")


def _chosen(
    context: Context, names: tuple[str, ...], selector: Selector, *, every: bool
) -> list[HostRecord]:
    """The hosts of exactly one way to name them; NotFound where there is none of that."""
    if (bool(names), bool(selector), every).count(True) != 1:
        raise UsageError("name hosts, or choose them by -l KEY=VALUE, or --all")
    if names:
        return [context.app.ledger.host(name) for name in names]
    found = [each for each in context.app.ledger.hosts() if matches(each.labels, selector)]
    if not found:
        raise NotFound(
            "no host is enrolled that has these labels", next="vgpumgr host list -o json"
        )
    return found


@host.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def cordon(context: Context, names: tuple[str, ...]) -> None:
    """Stop placing VMs on hosts; what runs there stays."""
    records = [context.app.ledger.host(name) for name in names]
    for record in records:
        context.app.writable_ledger.update_host(replace(record, cordoned=True))
        say(f"{record.name}: cordoned")


@host.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def uncordon(context: Context, names: tuple[str, ...]) -> None:
    """Place VMs on hosts again; a drain of them ends."""
    take_again(context, names)


@host.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--forget", is_flag=True, help="The host is gone for good: remove it without contacting it."
)
@output_option
@pass_context
def remove(context: Context, name: str, yes: bool, forget: bool) -> None:
    """Remove a host with its helper and pinned key; refused while anything is allocated on it.

    Partitioning of its GPUs and copies of images stay; both are listed before confirmation
    (docs/taking-back.md says how to remove them first). The helper stays while another fleet has
    enrolled the host. The same command resumes an interrupted run.
    """
    from vgpumgr.app.enrolment import remove as take_out

    staying = context.app.engine.staying(name)
    for line in staying:
        say(f"on {name} {line}")
    if staying:
        say("how to remove these while the host is enrolled: docs/taking-back.md")
    confirm(yes=yes)(f"remove host {name}?")
    with ending_gently(context.app.stop):
        left = take_out(context.app, name, reach=not forget)
    say(f"{name}: removed")
    if left:
        say(
            f"{name} no longer restores layouts at boot: {', '.join(left)} "
            "keep their partitioning until the next boot"
        )


@host.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def upgrade(context: Context, names: tuple[str, ...]) -> None:
    """Install this version's helper on hosts; claims and VMs stay as they are."""
    from vgpumgr.app.enrolment import upgrade_helper as install

    for name in names:
        context.app.ledger.host(name)
    for name in names:
        before, after = install(context.app, name)
        say(f"{name}: helper {before or 'unknown'} → {after}")
