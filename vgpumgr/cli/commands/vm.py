"""``vgpumgr vm``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import (
    Column,
    counted,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.progress import changing
from vgpumgr.cli.selectors import Selector, matches, selector_option
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.outcomes import print_outcome
from vgpumgr.cli.views.vm_items import part_text, vm_items
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.size import format_mib
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.engine import Engine
    from vgpumgr.engine.outcome import Outcome

COLUMNS = (
    Column("NAME", "name"),
    Column("HOST", "host"),
    Column("STATE", "state"),
    Column("POWER", "power"),
    Column("GPUS", lambda vm: ",".join(gpu["profile"] for gpu in vm["gpus"])),
    Column("VCPUS", "vcpus"),
    Column("MEMORY", lambda vm: format_mib(vm["memory_mib"])),
    Column("SEEN", lambda vm: age(vm["observed_at"])),
    Column("DEVICES", lambda vm: ",".join(gpu["device"] for gpu in vm["gpus"]), wide=True),
    Column("TENANT", "tenant", wide=True),
    Column("ID", "id", wide=True),
)


@click.group()
def vm() -> None:
    """VMs: create, list, show, xml, start, stop, reboot, delete."""


@vm.command("list")
@selector_option
@refresh_option
@list_options
@pass_context
def list_(context: Context, selector: Selector, refresh: bool) -> None:
    """List VMs, foreign domains included."""
    with refreshed(context, refresh):
        items = [item for item in vm_items(context) if matches(item["labels"], selector)]
        print_list("VM", items, COLUMNS)


@vm.command()
@click.argument("name")
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one VM."""
    ledger = context.app.ledger
    found = ledger.vm(name)
    item = next(item for item in vm_items(context) if item["id"] == found.id)
    text = fields(
        [
            ("Name", item["name"]),
            ("Id", item["id"]),
            ("Host", item["host"]),
            ("State", item["state"]),
            ("Power", f"{item['power']} (seen {age(item['observed_at'])} ago)"),
            ("vCPUs", item["vcpus"]),
            ("Memory", format_mib(item["memory_mib"])),
            ("NUMA node", item["numa_node"]),
            ("Pinned CPUs", ",".join(map(str, item["cpus"]))),
            *(("GPU", part_text(part)) for part in item["gpus"]),
            *(("Volume", f"{v['pool']}/{v['name']}") for v in item["volumes"]),
            ("Labels", ", ".join(f"{k}={v}" for k, v in item["labels"].items())),
            ("Tenant", item["tenant"]),
        ]
    )
    print_item("VM", item, text)


@vm.command()
@click.argument("name")
@pass_context
def xml(context: Context, name: str) -> None:
    """Print the domain XML as libvirt on the host has it."""
    click.echo(context.app.engine.domain_xml(name), nl=False)


@vm.command()
@click.argument("name")
@click.option("--profile", "profiles", multiple=True, help="A GPU profile; may be repeated.")
@click.option("--vcpus", type=int, default=2, show_default=True)
@click.option("--memory", default="4GiB", show_default=True)
@click.option("--disk", help="Size of a fresh disk, like 20GiB.")
@click.option("--image", help="Image volume to lay the disk over.")
@click.option("--network", help="libvirt network for one NIC.")
@click.option("--firmware", type=click.Choice(["uefi", "bios"]), default="uefi", show_default=True)
@click.option("--display", is_flag=True, help="Display on the first vGPU.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@output_option
@pass_context
def create(context: Context, /, name: str, dry_run: bool, **options: Any) -> None:
    """Create one VM from flags; apply -f does the same from a file."""
    from vgpumgr.cli.views.plans import plan_item, plan_text

    specs = _from_flags(context, name, options)
    app = context.app
    app.require_hosts()
    if name in {known.name for known in app.ledger.vms()}:
        raise Conflict(f"VM {name} exists already", next=f"vgpumgr vm show {name}")
    if dry_run:
        plan = app.engine.plan(specs)
    else:
        try:
            with changing(context, 1) as engine:
                plan, outcome = engine.apply(specs)
        except NoPlacement as error:
            error.next = "vgpumgr capacity"
            raise
        outcome.raise_for_failure()
    print_item("Plan", plan_item(plan), plan_text(plan))


def _from_flags(context: Context, name: str, options: dict[str, Any]) -> tuple[VmSpec, ...]:
    """Flags become the same document a file would hold, and go through the same checks."""
    from vgpumgr.cli.files import checked
    from vgpumgr.spec import COMMAND_LINE

    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "VM",
        "name": name,
        "vcpus": options["vcpus"],
        "memory": options["memory"],
        "firmware": options["firmware"],
        "display": options["display"],
        "gpus": [{"profile": profile} for profile in options["profiles"]],
    }
    if options["image"]:
        disk = {"mode": "overlay", "image": options["image"]}
        document["disks"] = [{**disk, **({"size": options["disk"]} if options["disk"] else {})}]
    elif options["disk"]:
        document["disks"] = [{"size": options["disk"]}]
    if options["network"]:
        document["networks"] = [{"network": options["network"]}]
    text = json.dumps(document, ensure_ascii=False).encode()
    return checked(context, text, COMMAND_LINE).vms


@vm.command()
@click.argument("names", nargs=-1, required=True)
@output_option
@pass_context
def start(context: Context, names: tuple[str, ...]) -> None:
    """Start VMs; GPU parts that the host lost come back first, with the same identity."""
    _power(context, names, lambda engine, each: engine.start(each))


@vm.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Pull the plug.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86400),
    default=60.0,
    show_default=True,
    help="Seconds to wait.",
)
@output_option
@pass_context
def stop(context: Context, names: tuple[str, ...], force: bool, timeout: float) -> None:
    """Ask the guests to power off. Their GPU parts stay theirs."""
    _power(context, names, lambda e, each: e.stop_vms(each, force=force, timeout_s=timeout))


@vm.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Power off and on.")
@output_option
@pass_context
def reboot(context: Context, names: tuple[str, ...], force: bool) -> None:
    """Reboot VMs."""
    _power(context, names, lambda engine, each: engine.reboot(each, force=force))


def _power(
    context: Context, names: Sequence[str], act: Callable[[Engine, Sequence[str]], Outcome]
) -> None:
    once = tuple(dict.fromkeys(names))
    with changing(context, len(once)) as engine:
        outcome = act(engine, once)
    print_outcome(outcome)


@vm.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--keep-disks", is_flag=True, help="Keep the volumes made for the VMs.")
@click.option("--force", is_flag=True, help="Power running VMs off.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(
    context: Context, names: tuple[str, ...], keep_disks: bool, force: bool, yes: bool
) -> None:
    """Delete VMs, with the disks and GPU parts made for them."""
    from vgpumgr.cli.questions import confirm

    for name in names:
        context.app.ledger.vm(name)
    delete_vms(context, names, keep_disks=keep_disks, force=force, ask=confirm(yes=yes))


def delete_vms(
    context: Context,
    names: Sequence[str],
    *,
    keep_disks: bool,
    force: bool,
    ask: Callable[[str], None],
) -> None:
    """List what goes, ask, delete."""
    names = tuple(dict.fromkeys(names))
    ledger = context.app.ledger
    volumes = [f"{p}/{n}" for vm in ledger.vms() if vm.name in set(names) for p, n in vm.volumes]
    if volumes and not keep_disks:
        say(f"volumes that go: {', '.join(volumes[:20])}")
        if len(volumes) > 20:
            say(f"  and {len(volumes) - 20} more")
    some = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
    ask(f"delete {counted(len(names), 'VM')}: {some}?")
    with changing(context, len(names)) as engine:
        outcome = engine.delete(names, keep_disks=keep_disks, force=force)
    print_outcome(outcome)
