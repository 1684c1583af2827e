"""Parts of a GPU's item in a few words, for tables."""

from __future__ import annotations

from typing import Any

from vgpumgr.cli.output import Item
from vgpumgr.cli.views.refusals import BACK_OFF
from vgpumgr.model.gpu import GpuHealth, GpuState
from vgpumgr.model.words import counted


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
