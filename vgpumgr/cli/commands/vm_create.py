"""The commands `vm create`, `clone` and `delete`, and the deletion that `delete -f` shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.views.outcome_views import print_outcome_result
from vgpumgr.endpoints.endpoint import Result
from vgpumgr.endpoints.plan_items import PlanItem
from vgpumgr.endpoints.vm_clones import CLONE_VM, CloneVm
from vgpumgr.endpoints.vm_creation import CREATE_VM, PLAN_VM, CreateVm
from vgpumgr.endpoints.vms import DELETE_VMS, PREVIEW_DELETE, DeleteVms, VmNames
from vgpumgr.model.formats import counted


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
@click.option("--os", help="The guest's operating system, like windows-11 or debian-12.")
@click.option("--display", is_flag=True, help="Display output on the first vGPU.")
@click.option("--console", is_flag=True, help="Emulated screen for `vm connect`.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@output_option
@pass_context
def create(context: Context, /, *, dry_run: bool, **options: Any) -> None:
    """Create one VM from flags; apply -f does the same from a file."""
    from vgpumgr.cli.views.plan_views import plan_text

    asked = CreateVm(**{name: given for name, given in options.items() if given is not None})
    result: Result[Any] = (
        context.read(PLAN_VM, asked) if dry_run else carry_out(context, CREATE_VM, asked)
    )
    finish(result)
    plan: PlanItem = result.answer
    print_item("Plan" if dry_run else "Apply", plan, plan_text(plan))


@click.command()
@click.argument("name", shell_complete=completed("vms"))
@click.argument("clone")
@click.option(
    "--snapshot",
    default="",
    metavar="SNAPSHOT",
    help="Lay its disks over this snapshot of NAME: nothing is copied, and it has to stay.",
    shell_complete=completed("snapshots"),
)
@output_option
@pass_context
def clone(context: Context, /, **asked: Any) -> None:
    """Create the VM CLONE like NAME, which is off, with copies of its disks.

    With --snapshot NAME may run, and the clone's disks hold what differs from the snapshot.
    """
    from vgpumgr.cli.views.plan_views import plan_text

    result = carry_out(context, CLONE_VM, CloneVm(**asked))
    finish(result)
    print_item("Apply", result.answer, plan_text(result.answer))


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
    found = context.read(PREVIEW_DELETE, VmNames(names=tuple(names))).answer
    vms, volumes = found["vms"], found["volumes"]
    if volumes and not keep_disks:
        say(f"volumes that go: {', '.join(volumes[:20])}")
        if len(volumes) > 20:
            say(f"  and {len(volumes) - 20} more")
    some = f"{', '.join(vms[:5])}{' …' if len(vms) > 5 else ''}"
    ask(f"delete {counted(len(vms), 'VM')}: {some}?")
    asked = DeleteVms(names=tuple(vms), keep_disks=keep_disks, force=force)
    print_outcome_result(carry_out(context, DELETE_VMS, asked))
