"""I1: a slice has at most one owner, in the store and on the hosts, now and at every moment."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from tests.checker.seen import HostSeen, Seen
from tests.checker.violation import Violation

_FRAMEBUFFER = re.compile(r"framebuffer=(\d+)M")


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Units, devices of the store, devices in domains, framebuffer, and what was seen between."""
    yield from _units(seen)
    yield from _devices(seen)
    for host in seen.hosts.values():
        yield from _domains(host)
        yield from _framebuffer(host)
    for shared in seen.watch.get("shared", ()):
        yield _double("in use twice", shared)


def _units(seen: Seen) -> Iterator[Violation]:
    owners: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    held = seen.store.allocations
    for row in seen.store.rows["unit"]:
        owners[row["gpu_id"], row["kind"], row["slot"]].add(_owner(seen, row["allocation_id"]))
    for key, each in held.items():
        for slot in each["slots"]:
            owners[each["gpu"], "memory", slot].add(_owner(seen, key))
        if (vf := each["extra"].get("vf")) is not None:
            owners[each["gpu"], "vf", vf].add(_owner(seen, key))
    for unit, who in sorted(owners.items()):
        if len(who) > 1:
            yield _double("unit", f"{unit} is held by {sorted(who)}")
    whole = {each["gpu"]: key for key, each in held.items() if each["framework"] == "passthrough"}
    for key, each in held.items():
        if whole.get(each["gpu"], key) != key:
            yield _double("whole GPU", f"{each['gpu']} is held by {whole[each['gpu']]} and {key}")


def _owner(seen: Seen, allocation: str) -> str:
    """The allocation; of a VM that is getting another seat the VM: what it had and what it gets may
    have a place in common.
    """
    held = seen.store.allocations.get(allocation)
    vm = seen.store.vms[held["vm_id"]] if held else None
    return f"VM {vm['id']}" if vm and vm["moving_to"] else allocation


def _devices(seen: Seen) -> Iterator[Violation]:
    owners: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, each in seen.store.allocations.items():
        for device in (each["device"], *each["companions"]):
            owners[each["host"], device].append(key)
    for (host, device), who in sorted(owners.items()):
        if len(who) > 1:
            yield _double("device", f"{device} on {host} is held by {sorted(who)}")


def _domains(host: HostSeen) -> Iterator[Violation]:
    """Two definitions that name one device: only one of them can ever run."""
    owners: dict[str, set[str]] = defaultdict(set)
    for domain in host.domains:
        for device in domain.devices:
            owners[device].add(domain.name)
    for device, who in sorted(owners.items()):
        if len(who) > 1:
            yield _double("domains", f"{device} on {host.name} is in {sorted(who)}")


def _framebuffer(host: HostSeen) -> Iterator[Violation]:
    """The vGPUs on a GPU fit into its memory, where mdev types tell theirs."""
    sizes = {
        key: int(found[1])
        for key, kind in host.mdev_types.items()
        if (found := _FRAMEBUFFER.search(kind.get("description") or ""))
    }
    memory = {
        gpu["address"]: gpu["memory_mib"]
        for gpu in (host.probe.get("nvml") or {}).get("gpus") or ()
        if gpu.get("memory_mib")
    }
    physical = {
        vf["address"]: device["address"]
        for device in host.probe["devices"]
        for vf in (device.get("sriov") or {}).get("vfs") or ()
    }
    used: dict[str, int] = defaultdict(int)
    for mdev in host.mdevs.values():
        gpu = physical.get(mdev["parent"], mdev["parent"])
        used[gpu] += sizes.get((mdev["parent"], mdev["type"]), 0)
    for gpu, mib in sorted(used.items()):
        if mib > memory.get(gpu, mib):
            yield _double("framebuffer", f"{mib} MiB of {memory[gpu]} on {gpu} of {host.name}")


def _double(kind: str, what: str) -> Violation:
    return Violation("I1", kind, what)
