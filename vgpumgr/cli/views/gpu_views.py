"""GPUs as printed: facts, partitioning, occupants, and refused placements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vgpumgr.cli.output import Item, fields
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.figure_views import gpu_now_text, hour_text
from vgpumgr.cli.views.layout_views import scheduler_text
from vgpumgr.endpoints.gpu_items import GpuFabric, GpuItem, GpuType, PowerLimits
from vgpumgr.endpoints.gpus import OneGpu, ShownGpu
from vgpumgr.endpoints.refusal_items import BACK_OFF
from vgpumgr.model.formats import counted, format_mib
from vgpumgr.model.gpu import GpuHealth, GpuState
from vgpumgr.model.health import HealthState

# What NVML says of a GPU that hangs on no NVSwitch.
NO_FABRIC = "not-supported"


def one_gpu(name: str) -> OneGpu:
    """The GPU of an id, or of HOST/DEVICE."""
    host, slash, device = name.partition("/")
    return OneGpu(name=device, host=host) if slash else OneGpu(name=name)


def refusal_lines(item: Mapping[str, Any], most: int = 5) -> Iterable[tuple[str, str]]:
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
    if item["state"] != GpuState.HEALTHY or item["condition"] not in _TAKING:
        worse = item["state"] if item["state"] != GpuState.HEALTHY else item["condition"]
        return str(worse)
    return BACK_OFF if item["back_off_s"] else str(item["condition"])


# A GPU in these conditions takes VMs.
_TAKING = {str(each) for each in HealthState if each.takes_vms}


def evidence_text(each: Mapping[str, Any]) -> str:
    """``Xid 119 (GSP_RPC_TIMEOUT), 3 m ago, 2 times (asks for: reset)``."""
    when = "" if each["standing"] else f", {age(each['last_at'])} ago"
    often = f", {each['count']} times" if each["count"] > 1 else ""
    return f"{each['text']}{when}{often} (asks for: {each['asks']})"


def evidence_lines(item: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """A line for each piece of evidence, and one of its Xids."""
    for each in item["evidence"]:
        yield "Evidence", evidence_text(each)
    if item["xids"]:
        counted_ = (f"{number}: {count}" for number, count in sorted_xids(item["xids"]))
        yield "Xids", ", ".join(counted_)


def sorted_xids(xids: Mapping[str, int]) -> list[tuple[str, int]]:
    """By their numbers."""
    return sorted(xids.items(), key=lambda each: int(each[0]))


def mig_text(mig: Mapping[str, Any] | None) -> str:
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


def vfs_text(vfs: Mapping[str, Any] | None) -> str:
    """``12/16``: free of those that are on; ``off``; empty where the GPU has none."""
    if vfs is None:
        return ""
    return f"{vfs['free']}/{vfs['on']}" if vfs["on"] else "off"


def mode_text(mixed_size: bool | None) -> str:
    """The driver's vGPU mode, where it has two."""
    if mixed_size is None:
        return ""
    return "mixed-size" if mixed_size else "same-size"


def instance_text(instance: Mapping[str, Any]) -> str:
    """``3g.40gb at 4: notebook-01``, with the vGPU's type where that is another word."""
    guests = [_guest_text(each, instance["profile"]) for each in instance["vgpus"]]
    computes = len(instance["compute"])
    inside = f", {counted(computes, 'compute instance')}" if computes else ""
    due = ", not created yet" if instance["id"] is None else ""
    where = f"{instance['profile']} at {instance['start']}"
    return f"{where}{inside}{due}: {', '.join(guests) or 'empty'}"


def _guest_text(vgpu: Mapping[str, Any], instance: str) -> str:
    name = vgpu["vm"] or f"foreign {vgpu['foreign']}"
    return str(name) if vgpu["profile"] == instance else f"{name} ({vgpu['profile']})"


def layout_text(layout: Mapping[str, Any] | None) -> str:
    """Its name, and whether it was reached."""
    if layout is None:
        return ""
    return str(layout["name"]) + ("" if layout["settled"] else " (not finished)")


def memory_text(item: Item) -> str:
    """``16 GiB``; empty where it is not known."""
    return format_mib(item["memory_mib"]) if item["memory_mib"] else ""


def gpu_text(item: ShownGpu) -> str:
    """A GPU for people."""
    return fields(
        [
            ("Id", item["name"]),
            ("Host", item["host"]),
            ("Device", item["device"]),
            ("Siblings", ", ".join(item["siblings"])),
            ("Model", item["model"]),
            ("Conflict", _conflict_text(item)),
            ("UUID", item["uuid"]),
            ("Memory", memory_text(item)),
            ("Driver", item["driver"]),
            ("NUMA node", item["numa_node"]),
            ("IOMMU group", item["iommu_group"]),
            ("State", ": ".join(filter(None, (health_text(item), item["state_why"])))),
            *refusal_lines(item),
            ("Health", ": ".join(filter(None, (item["health"], item["health_detail"])))),
            *evidence_lines(item),
            ("Now", gpu_now_text(item["now"])),
            ("Last hour", hour_text(item["hour"])),
            ("Seen", f"{age(item['observed_at'])} ago"),
            ("Slots", f"{item['units_used']} of {item['units']} in use"),
            *_partitioning(item),
            ("Fabric", fabric_text(item["fabric"])),
            *(("Type", _type_text(each)) for each in item["types"]),
            *(
                ("Held", f"{a['profile']} by {a['vm']} as {a['device']}")
                for a in item["allocations"]
            ),
            *(("Foreign", f"{each['profile']}: {each['what']}") for each in item["foreign"]),
        ]
    )


def _conflict_text(item: GpuItem) -> str:
    if not item["conflict"]:
        return ""
    helps = f"fix the board or its driver, then vgpumgr host probe {item['host']}"
    return f"{item['conflict']}; it takes no VM: {helps}"


def _scheduler_text(item: GpuItem) -> str:
    """The driver's own timing is not spoken of."""
    timing = item["scheduler_timing"]
    chosen = timing if timing is not None and any(timing.values()) else None
    return scheduler_text(item["scheduler"] or "", chosen)


def _partitioning(item: GpuItem) -> list[tuple[str, object]]:
    mig, vfs = item["mig"], item["vfs"]
    return [
        ("Layout", layout_text(item["layout"])),
        ("MIG", mig_text(mig)),
        *(("GPU instance", instance_text(each)) for each in (mig and mig["instances"]) or ()),
        ("MIG vGPUs", mig and mig["no_vgpus"] and f"none: {mig['no_vgpus']}"),
        ("VFs", vfs and f"{vfs['on']} of {vfs['total']} on, {vfs['free']} free"),
        ("Mode", mode_text(item["mixed_size"])),
        ("Scheduler", _scheduler_text(item)),
        ("Power limit", power_text(item["power_limits"])),
    ]


def power_text(power: PowerLimits | None) -> str:
    """``250 W of 100 to 300, clocks locked to 210 to 1410 MHz``; empty where it is not told."""
    if power is None:
        return ""
    clocks = power["locked_clocks_mhz"]
    locked = f", clocks locked to {clocks[0]} to {clocks[1]} MHz" if clocks else ""
    return f"{power['limit_w']} W of {power['least_w']} to {power['most_w']}{locked}"


def fabric_text(fabric: GpuFabric | None) -> str:
    """``module 1, state completed, NVLinks 18``; empty where it hangs on no NVSwitch."""
    if fabric is None or fabric["state"] == NO_FABRIC:
        return ""
    parts = {
        "module": fabric["module_id"],
        "state": fabric["state"],
        "NVLinks": fabric["nvlinks"],
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


def _type_text(each: GpuType) -> str:
    """``A40-48Q (nvidia-566): 1 more``; ``A40-48Q: after layout vfs: max``."""
    if each["layout"]:
        return f"{each['profile']}: after layout {each['layout']}"
    number = f" ({each['type_id']})" if each["type_id"] else ""
    return f"{each['profile']}{number}: {each['available']} more"
