"""``vgpumgr gpu``."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.ages import age, observed_ats
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import Column, fields, list_options, output_option, print_item, print_list
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.placement import Usage
from vgpumgr.model.size import format_mib
from vgpumgr.model.vm import Allocation

COLUMNS = (
    Column("HOST", "host"),
    Column("DEVICE", "device"),
    Column("MODEL", "model"),
    Column("MEMORY", lambda gpu: format_mib(gpu["memory_mib"]) if gpu["memory_mib"] else ""),
    Column("DRIVER", "driver"),
    Column("USED", lambda gpu: f"{gpu['units_used']}/{gpu['units']}"),
    Column("VMS", lambda gpu: len(gpu["allocations"])),
    Column("STATE", "state"),
    Column("SEEN", lambda gpu: age(gpu["observed_at"])),
    Column("NUMA", "numa_node", wide=True),
    Column("IOMMU", "iommu_group", wide=True),
    Column("UUID", "uuid", wide=True),
    Column("ID", "name"),
)


def gpu_item(
    gpu: GpuRecord, held: list[Allocation], foreign: list[Usage], observed_at: float | None
) -> dict[str, Any]:
    """The JSON of a GPU, as its host showed it at ``observed_at``."""
    facts = gpu.facts
    used = sum(len(each.slots) for each in held) + sum(each.units for each in foreign)
    return {
        "name": gpu.id,
        "host": gpu.host,
        "device": facts.device,
        "model": facts.model,
        "uuid": facts.uuid,
        "serial": facts.serial,
        "memory_mib": facts.memory_mib,
        "driver": facts.driver,
        "numa_node": facts.numa_node,
        "iommu_group": facts.iommu_group,
        "state": str(gpu.state),
        "observed_at": observed_at,
        "units": gpu.units,
        "units_used": min(used, gpu.units),
        "types": [
            {"type_id": t.type_id, "profile": t.profile, "available": t.available}
            for t in facts.mdev_types
        ],
        "allocations": [
            {"vm": each.vm, "profile": each.profile, "device": each.device} for each in held
        ],
        "foreign": [{"profile": each.profile, "what": each.foreign} for each in foreign],
    }


def gpu_items(context: Context) -> list[dict[str, Any]]:
    """All GPUs with what they hold, foreign things included."""
    from vgpumgr.engine.supply import build_fleet
    from vgpumgr.engine.view import read_view

    view = read_view(context.app.ledger)
    held: dict[str, list[Allocation]] = {}
    for allocation in view.allocations:
        held.setdefault(allocation.gpu, []).append(allocation)
    foreign = {
        gpu.id: [usage for usage in gpu.usages if usage.foreign]
        for host in build_fleet(view).hosts
        for gpu in host.gpus
    }
    seen = observed_ats(view.hosts)
    return [
        gpu_item(gpu, held.get(gpu.id, []), foreign.get(gpu.id, []), seen.get(gpu.host))
        for gpu in view.gpus
    ]


@click.group()
def gpu() -> None:
    """GPUs: list, show."""


@gpu.command("list")
@click.option("--host", "host_name", help="Only of this host.")
@refresh_option
@list_options
@pass_context
def list_(context: Context, host_name: str | None, refresh: bool) -> None:
    """List GPUs."""
    hosts = [context.app.ledger.host(host_name).name] if host_name else []
    with refreshed(context, refresh, hosts):
        items = [item for item in gpu_items(context) if not hosts or item["host"] in hosts]
        print_list("GPU", items, COLUMNS)


@gpu.command()
@click.argument("name")
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show one GPU, by its id, a unique prefix of it, or HOST/DEVICE."""
    items = [
        item
        for item in gpu_items(context)
        if item["name"].startswith(name) or name == f"{item['host']}/{item['device']}"
    ]
    if len(items) != 1:
        problem = "no GPU" if not items else "several GPUs match"
        raise NotFound(f"{problem} {name}", next="vgpumgr gpu list")
    print_item("GPU", items[0], _text(items[0]))


def _text(item: dict[str, Any]) -> str:
    return fields(
        [
            ("Id", item["name"]),
            ("Host", item["host"]),
            ("Device", item["device"]),
            ("Model", item["model"]),
            ("UUID", item["uuid"]),
            ("Memory", format_mib(item["memory_mib"]) if item["memory_mib"] else ""),
            ("Driver", item["driver"]),
            ("NUMA node", item["numa_node"]),
            ("IOMMU group", item["iommu_group"]),
            ("State", item["state"]),
            ("Seen", f"{age(item['observed_at'])} ago"),
            ("Slots", f"{item['units_used']} of {item['units']} in use"),
            *(("Type", _type_text(each)) for each in item["types"]),
            *(
                ("Held", f"{a['profile']} by {a['vm']} as {a['device']}")
                for a in item["allocations"]
            ),
            *(("Foreign", f"{each['profile']}: {each['what']}") for each in item["foreign"]),
        ]
    )


def _type_text(mdev_type: dict[str, Any]) -> str:
    free = mdev_type["available"]
    count = "unknown" if free is None else f"{free} free"
    return f"{mdev_type['profile']} ({mdev_type['type_id']}): {count}"
