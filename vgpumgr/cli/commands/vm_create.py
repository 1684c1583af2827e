"""The commands `vm create` and `vm delete`, and the deletion that `delete -f` shares with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import carry_out, changing
from vgpumgr.cli.views.outcome_views import print_outcome_result
from vgpumgr.endpoints.vms import DELETE_VMS, DeleteVms
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.formats import counted
from vgpumgr.model.vm import VmSpec


@click.command()
@click.argument("name")
@click.option("--profile", "profiles", multiple=True, help="A GPU profile; may be repeated.")
@click.option("--vcpus", type=int, default=2, show_default=True)
@click.option("--memory", default="4GiB", show_default=True)
@click.option("--disk", help="Size of a new disk, like 20GiB.")
@click.option(
    "--image", help="Image that the disk is an overlay of.", shell_complete=completed("images")
)
@click.option("--network", help="libvirt network of the NIC.")
@click.option("--firmware", type=click.Choice(["uefi", "bios"]), default="uefi", show_default=True)
@click.option("--display", is_flag=True, help="Display output on the first vGPU.")
@click.option("--console", is_flag=True, help="Emulated screen for `vm connect`.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@output_option
@pass_context
def create(context: Context, /, name: str, dry_run: bool, **options: Any) -> None:
    """Create one VM from flags; apply -f does the same from a file."""
    from vgpumgr.cli.views.plan_views import plan_item, plan_text

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
    from vgpumgr.cli.user_files import checked
    from vgpumgr.spec import COMMAND_LINE

    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "VM",
        "name": name,
        "vcpus": options["vcpus"],
        "memory": options["memory"],
        "firmware": options["firmware"],
        "display": options["display"],
        "console": options["console"],
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


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completed("vms"))
@click.option("--keep-disks", is_flag=True, help="Keep the volumes created for the VMs.")
@click.option("--force", is_flag=True, help="Power running VMs off.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def delete(
    context: Context, names: tuple[str, ...], keep_disks: bool, force: bool, yes: bool
) -> None:
    """Delete VMs, with the disks and GPU parts created for them."""
    from vgpumgr.cli.terminal import confirm

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
    asked = DeleteVms(names=names, keep_disks=keep_disks, force=force)
    print_outcome_result(carry_out(context, DELETE_VMS, asked))
