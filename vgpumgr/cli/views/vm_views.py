"""VMs as printed: those of the ledger, and domains that are not managed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vgpumgr.cli.command_context import Context
from vgpumgr.cli.views.ages import age, answers, look_item, observed_states
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import Allocation, VmRecord, VmState

UNKNOWN = "unknown"
_OFF = frozenset({"shutoff", "crashed"})


def vm_item(
    vm: VmRecord, held: Sequence[Allocation], power: str, look: dict[str, Any]
) -> dict[str, Any]:
    """The JSON of a VM. ``power_seen`` is what its host showed at the last look, ``power`` is
    unknown where the host has not answered since. ``status`` is state and power in one word.
    """
    now = power if answers(look) else UNKNOWN
    return {
        "name": vm.name,
        "id": vm.id,
        "host": vm.host,
        "moving_to": vm.moving_to.host if vm.moving_to else None,
        "state": str(vm.state),
        "status": _status(vm, now),
        "power": now,
        "power_seen": power,
        **look,
        "wanted_running": vm.running,
        "vcpus": vm.spec.vcpus,
        "memory_mib": vm.spec.memory_mib,
        "tenant": vm.spec.tenant,
        "labels": dict(vm.spec.labels),
        "gpus": [
            {
                "profile": each.profile,
                "framework": each.framework,
                "gpu": each.gpu,
                "device": each.device,
                "parent": each.parent,
                "state": str(each.state),
                "vf": each.vf,
                "instance": to_plain(each.instance),
                "placement_id": each.placement_id,
                "frame_rate_limiter": each.frame_rate_limiter,
                "partition": each.partition,
            }
            for each in sorted(held, key=lambda each: (each.parent or each.device, each.device))
        ],
        "volumes": [{"pool": pool, "name": name} for pool, name in vm.volumes],
        "cpus": list(vm.cpus),
        "numa_node": vm.numa_node,
        "owner": "vgpumgr",
        "adopted": bool(vm.definition),
    }


def _status(vm: VmRecord, power: str) -> str:
    """``stopped`` and ``down`` are active VMs that do not run: as asked for, or against it."""
    if vm.state is not VmState.ACTIVE or power not in _OFF:
        return str(vm.state)
    return "down" if vm.running else "stopped"


def power_text(item: Mapping[str, Any]) -> str:
    """``running``, ``running 3h ago`` by an old look, ``unknown (running 3h ago)`` where the host
    has not answered since.
    """
    if not item["stale"] or item["power_seen"] == UNKNOWN:
        return str(item["power"])
    seen = f"{item['power_seen']} {age(item['observed_at'])} ago"
    return seen if item["power"] != UNKNOWN else f"{UNKNOWN} ({seen})"


def part_text(part: dict[str, Any]) -> str:
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


def vm_items(context: Context) -> list[dict[str, Any]]:
    """Our VMs, then the foreign domains of the last observation."""
    ledger = context.app.ledger
    held: dict[str, list[Allocation]] = {}
    for allocation in ledger.allocations():
        held.setdefault(allocation.vm_id, []).append(allocation)
    vms, hosts = ledger.vms(), ledger.hosts()
    states = observed_states(hosts)
    looks = {host.name: look_item(host) for host in hosts}
    ours = {(vm.host, vm.name) for vm in vms}
    ours |= {(vm.moving_to.host, vm.name) for vm in vms if vm.moving_to}
    items = [
        vm_item(
            vm,
            held.get(vm.id, ()),
            states.get((vm.host, vm.name), UNKNOWN),
            looks.get(vm.host) or look_item(None),
        )
        for vm in vms
    ]
    foreign = [
        _foreign(host, domain)
        for host in hosts
        if host.facts
        for domain in host.facts.domains
        if (host.name, domain.name) not in ours and not _was_left(host, domain)
    ]
    return [*items, *foreign]


def _was_left(host: HostRecord, domain: DomainFacts) -> bool:
    """Is it what an evacuated VM left? That was seen last before its host was proven off."""
    return host.evacuated and domain.ownership is not None


def _foreign(host: HostRecord, domain: DomainFacts) -> dict[str, Any]:
    look = look_item(host)
    return {
        "name": domain.name,
        "id": domain.uuid,
        "host": host.name,
        "moving_to": None,
        "state": "foreign",
        "status": "foreign",
        "power": str(domain.state) if answers(look) else UNKNOWN,
        "power_seen": str(domain.state),
        **look,
        "wanted_running": None,
        "vcpus": domain.vcpus,
        "memory_mib": domain.memory_mib,
        "tenant": "",
        "labels": {},
        "gpus": [
            {"profile": "?", "framework": "", "gpu": "", "device": device, "parent": ""}
            for device in domain.devices
        ],
        "volumes": [],
        "cpus": [],
        "numa_node": None,
        "owner": "foreign",
    }
