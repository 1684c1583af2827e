"""The commands on GPUs: list, show, cordon, uncordon and reset."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option
from vgpumgr.cli.output import (
    Column,
    chosen_format,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import seen_text
from vgpumgr.cli.views.gpu_views import (
    fabric_text,
    gpu_text,
    health_text,
    memory_text,
    mig_text,
    mode_text,
    one_gpu,
    vfs_text,
)
from vgpumgr.cli.views.layout_views import change_text
from vgpumgr.cli.views.outcome_views import print_outcome_result
from vgpumgr.endpoints import gpu_cordons, gpu_resets, gpus
from vgpumgr.endpoints.healing import LIFT_GPU
from vgpumgr.model.formats import counted

COLUMNS = (
    Column("HOST", "host"),
    Column("DEVICE", "device"),
    Column("MODEL", "model"),
    Column("MEMORY", memory_text, spare=True),
    Column("DRIVER", "driver", spare=True),
    Column("MIG", lambda gpu: mig_text(gpu["mig"])),
    Column("VFS", lambda gpu: vfs_text(gpu["vfs"])),
    Column("USED", lambda gpu: f"{gpu['units_used']}/{gpu['units']}"),
    Column("VMS", lambda gpu: len(gpu["allocations"])),
    Column("STATE", health_text),
    Column("SEEN", seen_text, spare=True),
    Column("MODE", lambda gpu: mode_text(gpu["mixed_size"]), wide=True),
    Column("SCHEDULER", "scheduler", wide=True),
    Column("FABRIC", lambda gpu: fabric_text(gpu["fabric"]), wide=True),
    Column("SIBLINGS", "siblings", wide=True),
    Column("NUMA", "numa_node", wide=True),
    Column("IOMMU", "iommu_group", wide=True),
    Column("UUID", "uuid", wide=True),
    Column("ID", "name", spare=True),
)


@click.group()
def gpu() -> None:
    """GPUs: list, show, cordon, uncordon, reset."""


@gpu.command("list")
@click.option("--host", "host", help="Only of this host.", shell_complete=completed("hosts"))
@refresh_option
@list_options
@pass_context
def list_(context: Context, host: str | None, refresh: bool) -> None:
    """List GPUs. VFS counts the free ones of those that are on."""
    types = chosen_format().name in {"json", "yaml"}
    asked = gpus.GpuSelection(host=host or None, refresh=refresh, types=types)
    found = context.read(gpus.LIST_GPUS, asked)
    print_list("GPU", found.answer["items"], COLUMNS)
    finish(found)


@gpu.command()
@click.argument("name", shell_complete=completed("gpus"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one GPU, by its id, a unique prefix of it, or HOST/DEVICE."""
    item = context.read(gpus.SHOW_GPU, one_gpu(name)).answer
    print_item("GPU", item, gpu_text(item))


@gpu.command()
@click.argument("name", shell_complete=completed("gpus"))
@click.option("--reason", default="", metavar="TEXT", help="Shown wherever it takes no VM.")
@output_option
@pass_context
def cordon(context: Context, name: str, reason: str) -> None:
    """Place no VM on a GPU any more: its id, a unique prefix of it, or HOST/DEVICE.

    VMs on it go on; one that was stopped does not start on it again. `gpu uncordon` ends it.
    """
    one = one_gpu(name)
    asked = gpu_cordons.CordonGpu(name=one.name, host=one.host, reason=reason)
    item = context.act(gpu_cordons.CORDON_GPU, asked).answer
    print_item("CordonedGPU", item, _cordoned_text(item))


def _cordoned_text(item: gpu_cordons.CordonedGpu) -> str:
    named = f"{item['model']} {item['device']} on {item['host']}"
    left = f"; {counted(len(item['vms']), 'VM')} on it: {', '.join(item['vms'])}"
    return f"{named} takes no VM from now on{left if item['vms'] else ''}"


@gpu.command()
@click.argument("name", shell_complete=completed("gpus"))
@pass_context
def uncordon(context: Context, name: str) -> None:
    """Place VMs on a GPU again, if a look shows it healthy: the same as heal --lift."""
    context.act(LIFT_GPU, one_gpu(name))
    say(f"{name} accepts VMs again")


@gpu.command()
@click.argument("name", shell_complete=completed("gpus"))
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def reset(context: Context, name: str, dry_run: bool, yes: bool) -> None:
    """Reset a GPU that nothing uses: its id, a unique prefix of it, or HOST/DEVICE.

    Its driver resets it, and it is partitioned as it was. It is refused while a VM holds a part of
    the GPU or a program on the host has it open. Meanwhile no VM is placed on the GPU.
    """
    asked = one_gpu(name)
    planned = context.read(gpu_resets.PLAN_RESET, asked).answer
    if dry_run:
        print_item("GPUResetPlan", planned, _reset_text(planned))
        return
    say(_reset_text(planned))
    confirm(yes=yes)(f"reset {planned['model']} {planned['device']} on {planned['host']}?")
    print_outcome_result(carry_out(context, gpu_resets.RESET_GPU, asked))


def _reset_text(planned: gpu_resets.ResetPlanItem) -> str:
    why = f": {planned['why']}" if planned["why"] else ""
    lines = [
        f"{planned['host']}  {planned['model']}  {planned['device']}  {planned['condition']}{why}"
    ]
    return "\n".join([*lines, *(f"  will     {change_text(each)}" for each in planned["changes"])])
