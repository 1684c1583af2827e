"""GPUs as printed: facts, partitioning, occupants, and refused placements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr import catalog
from vgpumgr.cli.command_context import Context
from vgpumgr.cli.output import Item, chosen_format
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.layout_views import goal_item
from vgpumgr.endpoints.host_looks import Look, look_item
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuHealth, GpuRecord, GpuState
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.refusal import Refusal, of_place
from vgpumgr.model.supply import GpuSupply, InstanceSupply, Usage
from vgpumgr.model.vm import Allocation

BACK_OFF = "back-off"


def refusals_item(refusals: Sequence[Refusal]) -> dict[str, Any]:
    """What no success has closed since, and for how many more seconds it is chosen last."""
    return {
        "back_off_s": round(max((each.left_s for each in refusals), default=0.0), 1),
        "refusals": [
            {
                "at": each.at,
                "vm": each.vm,
                "operation": each.operation,
                "what": each.what,
                "why": each.why,
                "counts": each.counts,
            }
            for each in refusals
        ],
    }


def refusal_lines(item: dict[str, Any], most: int = 5) -> Iterable[tuple[str, str]]:
    """``Refused   to make T4-4Q for desk-01, 3 m ago: EIO, Input/output error``, the last first."""
    found = item["refusals"]
    for each in reversed(found[-most:]):
        aside = "" if each["counts"] else " (cleared)"
        what = f"to {each['what']} for {each['vm']}, {age(each['at'])} ago"
        yield "Refused", f"{what}: {each['why']}{aside} (operation {each['operation'][:8]})"
    if len(found) > most:
        yield "Refused", f"and {len(found) - most} times before"


def health_text(item: Item) -> str:
    """The worse of what the ledger and the driver say, in one word."""
    if item["conflict"]:
        return "conflict"
    unasked = item["health"] == GpuHealth.UNKNOWN and not item["health_detail"]
    if not unasked and item["health"] != GpuHealth.OK:
        return str(item["health"])
    in_back_off = item["state"] == GpuState.HEALTHY and item["back_off_s"]
    return BACK_OFF if in_back_off else str(item["state"])


def mig_text(mig: dict[str, Any] | None) -> str:
    """``off``, ``on``, ``3 GIs``, ``off, on after a reset``; empty where there is none."""
    if mig is None:
        return ""
    words = {True: "on", False: "off"}
    now = words[mig["enabled"]]
    if mig["enabled"] != mig["pending"]:
        return f"{now}, {words[mig['pending']]} after a reset"
    if mig["instances"] is None:
        return f"{now}, GIs unknown" if mig["enabled"] else now
    return counted(len(mig["instances"]), "GI") if mig["instances"] else now


def vfs_text(vfs: dict[str, int] | None) -> str:
    """``12/16``: free of those that are on; ``off``; empty where the GPU has none."""
    if vfs is None:
        return ""
    return f"{vfs['free']}/{vfs['on']}" if vfs["on"] else "off"


def mode_text(mixed_size: bool | None) -> str:
    """The driver's vGPU mode, where it has two."""
    if mixed_size is None:
        return ""
    return "mixed-size" if mixed_size else "same-size"


def instance_text(instance: dict[str, Any]) -> str:
    """``3g.40gb at 4: notebook-01``, with the vGPU's type where that is another word."""
    guests = [_guest_text(each, instance["profile"]) for each in instance["vgpus"]]
    computes = len(instance["compute"])
    inside = f", {counted(computes, 'compute instance')}" if computes else ""
    due = ", not created yet" if instance["id"] is None else ""
    where = f"{instance['profile']} at {instance['start']}"
    return f"{where}{inside}{due}: {', '.join(guests) or 'empty'}"


def _guest_text(vgpu: dict[str, Any], instance: str) -> str:
    name = vgpu["vm"] or f"foreign {vgpu['foreign']}"
    return str(name) if vgpu["profile"] == instance else f"{name} ({vgpu['profile']})"


def layout_text(layout: dict[str, Any] | None) -> str:
    """Its name, and whether it was reached."""
    if layout is None:
        return ""
    return str(layout["name"]) + ("" if layout["settled"] else " (not finished)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGpu:
    """One GPU with all that is known of it. ``supply`` None: its host was never probed."""

    gpu: GpuRecord
    supply: GpuSupply | None
    held: Sequence[Allocation]
    layout: LayoutRecord | None
    look: Look
    refusals: Sequence[Refusal] = ()


def gpu_items(context: Context) -> list[dict[str, Any]]:
    """All GPUs with what they hold, foreign things included; their types where they are shown."""
    types = chosen_format().name in {"json", "yaml"}
    return [gpu_item(each, types=types) for each in seen_gpus(context)]


def seen_gpus(context: Context) -> list[SeenGpu]:
    """All GPUs, by host and device."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    view = read_view(context.app.ledger)
    held: dict[str, list[Allocation]] = {}
    for allocation in view.allocations:
        held.setdefault(allocation.gpu, []).append(allocation)
    supplies = {gpu.id: gpu for host in build_fleet(view).hosts for gpu in host.gpus}
    layouts = {record.gpu: record for record in view.layouts}
    looks = {host.name: look_item(host) for host in view.hosts}
    return [
        SeenGpu(
            gpu=gpu,
            supply=supplies.get(gpu.id),
            held=held.get(gpu.id, ()),
            layout=layouts.get(gpu.id),
            look=looks.get(gpu.host) or look_item(None),
            refusals=of_place(view.refusals, gpu.host, gpu.id),
        )
        for gpu in view.gpus
    ]


def gpu_item(seen: SeenGpu, *, types: bool = True) -> dict[str, Any]:
    """The JSON of a GPU, as its host showed it at the last look.

    ``types`` False leaves out what it could make: for a large fleet that takes a while.
    """
    gpu, facts = seen.gpu, seen.gpu.facts
    foreign = [usage for usage in seen.supply.usages if usage.foreign] if seen.supply else []
    used = sum(len(each.slots) for each in seen.held) + sum(each.units for each in foreign)
    return {
        "name": gpu.id,
        "host": gpu.host,
        "device": facts.device,
        "model": facts.model,
        "driver_name": facts.name,
        "uuid": facts.uuid,
        "serial": facts.serial,
        "memory_mib": facts.memory_mib,
        "driver": facts.driver,
        "numa_node": facts.numa_node,
        "iommu_group": facts.iommu_group,
        "siblings": list(facts.siblings),
        "state": str(gpu.state),
        "state_why": gpu.state_why,
        **refusals_item(seen.refusals),
        "health": str(facts.health),
        "health_detail": facts.health_detail,
        "conflict": catalog.contradiction(facts),
        "ecc": facts.ecc,
        **seen.look,
        "units": gpu.units,
        "units_used": min(used, gpu.units),
        **partitioning(seen),
        "fabric": _fabric(facts),
        "types": _types(seen.supply) if types else [],
        "allocations": [
            {"vm": each.vm, "profile": each.profile, "device": each.device} for each in seen.held
        ],
        "foreign": [{"profile": each.profile, "what": each.foreign} for each in foreign],
    }


def partitioning(seen: SeenGpu) -> dict[str, Any]:
    """How the GPU is partitioned, and how it is declared to be (``layout`` null: not at all)."""
    facts, record = seen.gpu.facts, seen.layout
    return {
        "mig": _mig(seen),
        "vfs": _vfs(seen),
        "mixed_size": facts.mixed_size,
        "scheduler": facts.scheduler,
        "layout": record
        and {"name": record.layout, "settled": record.settled, "declared": goal_item(record.goal)},
    }


def _mig(seen: SeenGpu) -> dict[str, Any] | None:
    mig = seen.gpu.facts.mig
    if mig is None:
        return None
    supplied = seen.supply.instances if seen.supply else ()
    unread = mig.instances is None
    return {
        "enabled": mig.enabled,
        "pending": mig.pending,
        "instances": None if unread else [_instance(seen, each) for each in supplied],
        "no_vgpus": seen.supply.no_mig_vgpus if seen.supply else "",
    }


def _instance(seen: SeenGpu, instance: InstanceSupply) -> dict[str, Any]:
    """One GPU instance; ``id`` null: we hold its place, and it is not made yet."""
    guests = [u for u in seen.supply.usages if u.start == instance.start] if seen.supply else []
    return {
        "id": instance.id,
        "profile": instance.profile,
        "start": instance.start,
        "size": instance.size,
        "compute": [each.profile_id for each in _compute(seen.gpu.facts, instance.start)],
        "made_for_vm": any(
            each.instance.make and each.instance.start == instance.start
            for each in seen.held
            if each.instance is not None
        ),
        "vgpus": [_guest(each) for each in guests],
    }


def _compute(facts: GpuFacts, start: int) -> tuple[ComputeInstance, ...]:
    found = facts.mig.instances if facts.mig else None
    return next((each.compute for each in found or () if each.start == start), ())


def _guest(usage: Usage) -> dict[str, Any]:
    return {"vm": usage.vm, "foreign": usage.foreign, "profile": usage.profile}


def _vfs(seen: SeenGpu) -> dict[str, int] | None:
    facts = seen.gpu.facts
    if not facts.sriov_total and not facts.vfs:
        return None
    free = len(seen.supply.free_vfs) if seen.supply else 0
    return {"total": facts.sriov_total, "on": len(facts.vfs), "free": free}


def _fabric(facts: GpuFacts) -> dict[str, Any] | None:
    found = {
        "module_id": facts.module_id,
        "state": facts.fabric_state,
        "nvlinks": facts.nvlinks,
    }
    return None if set(found.values()) == {None} else found


def _types(supply: GpuSupply | None) -> list[dict[str, Any]]:
    """``available`` is how many could be created now; ``layout`` what the GPU lacks for it."""
    from vgpumgr.engine.capacity.relayout_capacity import creatable

    return [
        {
            "type_id": each.type_id,
            "profile": each.profile,
            "framework": each.framework,
            "available": each.fits,
            "layout": each.layout,
        }
        for each in (creatable(supply) if supply else ())
    ]
