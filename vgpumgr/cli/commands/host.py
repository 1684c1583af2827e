"""The commands on enrolled hosts: list, show, probe, trust, cordon, remove, upgrade, migration."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.host_add import add
from vgpumgr.cli.commands.host_drain import drain, maintenance, say_again, undrain
from vgpumgr.cli.commands.host_evacuate import evacuate, fence
from vgpumgr.cli.options import Selector, refresh_option, selector_option
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm, one_line
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.host_views import helper_text, host_text, migration_text
from vgpumgr.endpoints import host_membership, hosts
from vgpumgr.model.errors import UsageError
from vgpumgr.model.formats import format_mib
from vgpumgr.model.host import AUTO, DECLARED


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--address", help="Name or IP address at which other hosts reach its QEMU.")
@click.option("--no-tls", is_flag=True, help="Send memory unencrypted: only on a trusted network.")
@click.option("--tls-name", help="Name in its certificate, if not the address.")
@click.option("--bandwidth", help="Bandwidth limit per second, like 500MiB.")
@click.option("--off", is_flag=True, help="Accept no live migrations any more.")
@output_option
@pass_context
def migration(
    context: Context,
    name: str,
    address: str | None,
    no_tls: bool,
    tls_name: str | None,
    bandwidth: str | None,
    off: bool,
) -> None:
    """Set where live migrations are sent to: the migration block of a Host document.

    \b
    vgpumgr host migration gpu2 --address 10.77.0.12
    """
    if off == bool(address):
        context.read(hosts.SHOW_HOST, hosts.OneHost(name=name))
        raise UsageError(
            "either --address or --off",
            next=f"vgpumgr host migration {name} --address ADDRESS",
        )
    if address:
        asked = hosts.NewMigrationAddress(
            name=name, address=address, tls=not no_tls, tls_name=tls_name, bandwidth=bandwidth
        )
        wanted = context.act(hosts.SET_MIGRATION, asked).answer["migration"]
    else:
        gone = context.act(hosts.REMOVE_MIGRATION, hosts.OneHost(name=name))
        wanted = gone.answer["migration"]
    say(f"{name}: {migration_text(wanted) if wanted else 'accepts no live migrations'}")


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
    labels = tuple(f"{key}={value}" for key, value in selector)
    found = context.read(hosts.LIST_HOSTS, hosts.HostFilter(labels=labels, refresh=refresh))
    print_list("Host", found.answer["items"], COLUMNS)
    finish(found)


@host.command()
@click.argument("name", shell_complete=completed("hosts"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one host."""
    item = context.read(hosts.SHOW_HOST, hosts.OneHost(name=name)).answer
    print_item("Host", item, host_text(item))


@host.command()
@click.argument("names", nargs=-1, shell_complete=completed("hosts"))
@output_option
@pass_context
def probe(context: Context, names: tuple[str, ...]) -> None:
    """Probe hosts (default: all) and record the observation."""
    found = context.read(hosts.PROBE_HOSTS, hosts.ProbeRequest(names=names))
    for each in found.answer["items"]:
        say(f"{each['name']}: {each['summary']}")
    for line in found.answer["set_aside"]:
        say(line)
    for line in found.answer["failed"]:
        say(one_line(line))
    finish(found)


@host.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--fingerprint", required=True, help="Fingerprint of the new SSH key, SHA256:…")
@output_option
@pass_context
def trust(context: Context, name: str, fingerprint: str) -> None:
    """Pin a host's new SSH key after it changed for a known reason."""
    asked = host_membership.TrustedKey(name=name, fingerprint=fingerprint)
    context.act(host_membership.TRUST_HOST, asked)
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
    asked = hosts.HostSettings(
        names=names,
        labels=tuple(f"{key}={value}" for key, value in selector),
        every=every,
        layout="auto" if layout == AUTO else "declared",
    )
    for each in context.act(hosts.SET_HOSTS, asked).answer["items"]:
        say(f"{each['name']}: layout {layout}")


@host.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def cordon(context: Context, names: tuple[str, ...]) -> None:
    """Stop placing VMs on hosts; what runs there stays."""
    done = context.act(hosts.CORDON_HOSTS, hosts.NamedHosts(names=names))
    for each in done.answer["items"]:
        say(f"{each['name']}: cordoned")


@host.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("hosts"))
@output_option
@pass_context
def uncordon(context: Context, names: tuple[str, ...]) -> None:
    """Place VMs on hosts again; a drain of them ends."""
    say_again(context.act(hosts.UNCORDON_HOSTS, hosts.NamedHosts(names=names)))


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
    ahead = context.read(host_membership.PREVIEW_REMOVAL, hosts.OneHost(name=name))
    staying = ahead.answer["staying"]
    for line in staying:
        say(f"on {name} {line}")
    if staying:
        say("how to remove these while the host is enrolled: docs/taking-back.md")
    confirm(yes=yes)(f"remove host {name}?")
    asked = host_membership.RemovedHost(name=name, forget=forget)
    left = carry_out(context, host_membership.REMOVE_HOST, asked).answer["layouts"]
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
    done = context.act(host_membership.UPGRADE_HOSTS, hosts.NamedHosts(names=names))
    for each in done.answer["items"]:
        say(f"{each['name']}: helper {each['before'] or 'unknown'} → {each['after']}")
    finish(done)
