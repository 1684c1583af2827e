"""VMs as printed: those of the ledger, and domains that are not managed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vgpumgr.cli.output import fields
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.figure_views import hour_text, part_now_text
from vgpumgr.endpoints.performance import VmPerformance
from vgpumgr.endpoints.vm_items import (
    UNKNOWN,
    VmCd,
    VmGpu,
    VmItem,
    VmNicFunction,
    VmVolume,
    WaitingMove,
)
from vgpumgr.model.formats import format_mib, size_words


def power_text(item: Mapping[str, Any]) -> str:
    """``running``, ``running 3h ago`` by an old look, ``unknown (running 3h ago)`` where the host
    has not answered since.
    """
    if not item["stale"] or item["power_seen"] == UNKNOWN:
        return str(item["power"])
    seen = f"{item['power_seen']} {age(item['observed_at'])} ago"
    return seen if item["power"] != UNKNOWN else f"{UNKNOWN} ({seen})"


def part_text(part: Mapping[str, Any]) -> str:
    """``1g.10gb (vfio-vf) 0000:41:00.5 on gpu-1a2b3c4d, VF 1, in GPU instance 1g.10gb at 2``."""
    words = [
        f"{part['profile']} ({part['framework']}) {part['device']} on "
        f"{part['parent'] or part['gpu']}"
    ]
    if part.get("vf") is not None:
        words.append(f"VF {part['vf']}")
    if instance := part.get("instance"):
        made = "made for it" if instance["make"] else "of the layout"
        words.append(f"in GPU instance {instance['profile']} at {instance['start']}, {made}")
    if part.get("placement_id") is not None:
        words.append(f"placement id {part['placement_id']}")
    if part.get("frame_rate_limiter") is not None:
        words.append(f"frame-rate limiter {'on' if part['frame_rate_limiter'] else 'off'}")
    if part.get("partition") is not None:
        words.append(f"NVSwitch partition {part['partition']}")
    return ", ".join(words)


def vm_text(item: VmItem) -> str:
    """A VM for people."""
    return fields(
        [
            ("Name", item["name"]),
            ("Id", item["id"]),
            ("Host", item["host"]),
            ("State", _state_text(item)),
            ("Moves", "".join(map(_move_text, item["moves"]))),
            ("Power", _power_text(item)),
            ("vCPUs", item["vcpus"]),
            ("Memory", format_mib(item["memory_mib"])),
            ("NUMA node", item["numa_node"]),
            ("Pinned CPUs", ",".join(map(str, item["cpus"]))),
            *(("NIC", _nic_text(each)) for each in item["nic_functions"]),
            *(line for part in item["gpus"] for line in _part_lines(part)),
            *(("Volume", _volume_text(each)) for each in item["volumes"]),
            *(("CD", _cd_text(each)) for each in item["cds"]),
            ("Snapshots", ", ".join(item["snapshots"])),
            ("Labels", ", ".join(f"{k}={v}" for k, v in item["labels"].items())),
            ("Flavour", item["flavour"]),
            ("System", item["os"]),
            ("Guest", guest_text(item)),
            ("Profiles", ", ".join(item["guest"]["profiles"]) if item["guest"] else ""),
            ("Tenant", item["tenant"]),
        ]
    )


def guest_text(item: VmItem) -> str:
    """``ready for 5m``, ``failed for 2m: the NVIDIA driver is not loaded``; empty where nothing
    says when it is ready.
    """
    guest = item["guest"]
    if guest is None:
        return ""
    lasted = f" for {age(guest['since'])}" if guest["since"] is not None else ""
    why = f": {guest['why']}" if guest["why"] else ""
    return f"{guest['phase']}{lasted}{why}"


def _nic_text(nic: VmNicFunction) -> str:
    """``0: VF 0000:3b:02.0 of network fabric, VLAN 20, trusted``."""
    where = nic["physical"] or f"network {nic['network']}"
    vf = f"VF {nic['device']}" if nic["device"] else "a VF"
    said = [
        f"{nic['number']}: {vf} of {where}",
        f"VLAN {nic['vlan']}" if nic["vlan"] else "",
        "trusted" if nic["trust"] else "",
        "" if nic["spoof_check"] else "no spoof check",
    ]
    return ", ".join(filter(None, said))


def _volume_text(volume: VmVolume) -> str:
    """``default/desk-1bd389ef-0.qcow2 (qcow2, 20 GiB)``."""
    size = volume.get("size_bytes", 0)
    said = [volume.get("format", ""), size_words(size) if size else ""]
    text = ", ".join(filter(None, said))
    return f"{volume['pool']}/{volume['name']}{f' ({text})' if text else ''}"


def _cd_text(cd: VmCd) -> str:
    """``debian@12-1a2b3c4d.iso in default, booted from first``."""
    return f"{cd['image']} in {cd['pool']}{', booted from first' if cd['boot'] else ''}"


def _part_lines(part: VmGpu) -> Iterator[tuple[str, str]]:
    """What it is, what it measures now, and how busy it was."""
    yield "GPU", part_text(part)
    yield "Now", part_now_text(part.get("now"))
    yield "Last hour", hour_text(part.get("hour", []))


def _move_text(move: WaitingMove) -> str:
    """``to gpu2 when ada logs off``."""
    return f"to {move['host']} when {move['user']} logs off ({move['why']})"


def _power_text(item: VmItem) -> str:
    """``running (seen 5s ago)``; what is old or not known says so itself."""
    if item["observed_at"] is None:
        return item["power"]
    if item["stale"]:
        return f"{power_text(item)}: {item['host']} is {item['stale_why']}"
    return f"{item['power']} (seen {age(item['observed_at'])} ago)"


def _state_text(item: VmItem) -> str:
    """``migrating to gpu2``; of a VM that does not run, what that means."""
    to, status = item["moving_to"], item["status"]
    if to == item["host"]:
        return f"changing on {to}"
    if to:
        return f"{status} to {to}"
    if status == "stopped":
        return "stopped (by request; it keeps its GPU parts)" if item["gpus"] else "stopped"
    if status == "down":
        return f"down (should be running: vgpumgr vm start {item['name']})"
    return status


_VERDICTS = {
    "cause": "CAUSE",
    "possible": "possible",
    "unknown": "unknown",
    "ruled-out": "ruled out",
}


def performance_text(item: VmPerformance) -> str:
    """A line for each finding with what to type below it, the causes first."""
    age = item["measured_s"]
    measured = "no figures of now" if age is None else f"measured {age:.0f} s ago"
    lines = [f"{item['name']} on {item['host']}: {item['summary']}; {measured}"]
    for each in item["findings"]:
        lines.append(f"  {_VERDICTS[each['verdict']]:<9}  {each['text']}")
        if each["next"] and each["verdict"] != "ruled-out":
            lines.append(f"  {'':<9}    {each['next']}")
    return "\n".join(lines)
