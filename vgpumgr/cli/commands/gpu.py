"""The commands `gpu list` and `gpu show`."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option, refreshed
from vgpumgr.cli.output import (
    Column,
    Item,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
)
from vgpumgr.cli.views.ages import age, seen_text
from vgpumgr.cli.views.gpu_views import (
    gpu_item,
    gpu_items,
    health_text,
    instance_text,
    layout_text,
    mig_text,
    mode_text,
    refusal_lines,
    seen_gpus,
    vfs_text,
)
from vgpumgr.model.errors import NotFound
from vgpumgr.model.formats import format_mib

# What NVML says of a GPU that hangs on no NVSwitch.
NO_FABRIC = "not-supported"


def _memory(gpu: Item) -> str:
    return format_mib(gpu["memory_mib"]) if gpu["memory_mib"] else ""


COLUMNS = (
    Column("HOST", "host"),
    Column("DEVICE", "device"),
    Column("MODEL", "model"),
    Column("MEMORY", _memory, spare=True),
    Column("DRIVER", "driver", spare=True),
    Column("MIG", lambda gpu: mig_text(gpu["mig"])),
    Column("VFS", lambda gpu: vfs_text(gpu["vfs"])),
    Column("USED", lambda gpu: f"{gpu['units_used']}/{gpu['units']}"),
    Column("VMS", lambda gpu: len(gpu["allocations"])),
    Column("STATE", health_text),
    Column("SEEN", seen_text, spare=True),
    Column("MODE", lambda gpu: mode_text(gpu["mixed_size"]), wide=True),
    Column("SCHEDULER", "scheduler", wide=True),
    Column("FABRIC", lambda gpu: _fabric_text(gpu["fabric"]), wide=True),
    Column("SIBLINGS", "siblings", wide=True),
    Column("NUMA", "numa_node", wide=True),
    Column("IOMMU", "iommu_group", wide=True),
    Column("UUID", "uuid", wide=True),
    Column("ID", "name", spare=True),
)


@click.group()
def gpu() -> None:
    """GPUs: list, show."""


@gpu.command("list")
@click.option("--host", "host_name", help="Only of this host.", shell_complete=completed("hosts"))
@refresh_option
@list_options
@pass_context
def list_(context: Context, host_name: str | None, refresh: bool) -> None:
    """List GPUs. VFS counts the free ones of those that are on."""
    hosts = [context.app.ledger.host(host_name).name] if host_name else []
    with refreshed(context, refresh, hosts):
        items = [item for item in gpu_items(context) if not hosts or item["host"] in hosts]
        print_list("GPU", items, COLUMNS)


@gpu.command()
@click.argument("name", shell_complete=completed("gpus"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one GPU, by its id, a unique prefix of it, or HOST/DEVICE."""
    found = [each for each in seen_gpus(context) if each.gpu.is_called(name)]
    if len(found) != 1:
        problem = "no GPU" if not found else "several GPUs match"
        raise NotFound(f"{problem} {name}", next="vgpumgr gpu list")
    item = gpu_item(found[0])
    print_item("GPU", item, _text(item))


def _text(item: dict[str, Any]) -> str:
    return fields(
        [
            ("Id", item["name"]),
            ("Host", item["host"]),
            ("Device", item["device"]),
            ("Siblings", ", ".join(item["siblings"])),
            ("Model", item["model"]),
            ("Conflict", _conflict_text(item)),
            ("UUID", item["uuid"]),
            ("Memory", _memory(item)),
            ("Driver", item["driver"]),
            ("NUMA node", item["numa_node"]),
            ("IOMMU group", item["iommu_group"]),
            ("State", ": ".join(filter(None, (health_text(item), item["state_why"])))),
            *refusal_lines(item),
            ("Health", ": ".join(filter(None, (item["health"], item["health_detail"])))),
            ("Seen", f"{age(item['observed_at'])} ago"),
            ("Slots", f"{item['units_used']} of {item['units']} in use"),
            *_partitioning(item),
            ("Fabric", _fabric_text(item["fabric"])),
            *(("Type", _type_text(each)) for each in item["types"]),
            *(
                ("Held", f"{a['profile']} by {a['vm']} as {a['device']}")
                for a in item["allocations"]
            ),
            *(("Foreign", f"{each['profile']}: {each['what']}") for each in item["foreign"]),
        ]
    )


def _conflict_text(item: dict[str, Any]) -> str:
    if not item["conflict"]:
        return ""
    helps = f"fix the board or its driver, then vgpumgr host probe {item['host']}"
    return f"{item['conflict']}; it takes no VM: {helps}"


def _partitioning(item: dict[str, Any]) -> list[tuple[str, object]]:
    mig, vfs = item["mig"], item["vfs"]
    return [
        ("Layout", layout_text(item["layout"])),
        ("MIG", mig_text(mig)),
        *(("GPU instance", instance_text(each)) for each in (mig or {}).get("instances") or ()),
        ("MIG vGPUs", (mig or {}).get("no_vgpus") and f"none: {mig['no_vgpus']}"),
        ("VFs", vfs and f"{vfs['on']} of {vfs['total']} on, {vfs['free']} free"),
        ("Mode", mode_text(item["mixed_size"])),
        ("Scheduler", item["scheduler"]),
    ]


def _fabric_text(fabric: dict[str, Any] | None) -> str:
    if fabric is None or fabric["state"] == NO_FABRIC:
        return ""
    parts = {
        "module": fabric["module_id"],
        "state": fabric["state"],
        "NVLinks": fabric["nvlinks"],
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


def _type_text(each: dict[str, Any]) -> str:
    """``A40-48Q (nvidia-566): 1 more``; ``A40-48Q: after layout vfs: max``."""
    if each["layout"]:
        return f"{each['profile']}: after layout {each['layout']}"
    number = f" ({each['type_id']})" if each["type_id"] else ""
    return f"{each['profile']}{number}: {each['available']} more"
