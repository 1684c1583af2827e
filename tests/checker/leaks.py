"""I3: once all has ended, nothing is left behind: what hosts give up is free in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.checker import nics
from tests.checker.seen import HostSeen, Row, Seen
from tests.checker.violation import Violation


def violations(seen: Seen, before: Seen | None) -> Iterator[Violation]:
    """Leaks of the store, then of each host; what was there ``before`` and foreign is none."""
    yield from _store(seen)
    for name, host in seen.hosts.items():
        old = before.hosts.get(name) if before else None
        yield from _claims(seen, host)
        yield from _slices(seen, host, old)
        yield from _instances(seen, host, old)
        yield from _volumes(seen, host)
        yield from _domains(seen, host)


def _store(seen: Seen) -> Iterator[Violation]:
    held, vms = seen.store.allocations, seen.store.vms
    for row in seen.store.rows["unit"]:
        if row["allocation_id"] not in held:
            yield _leak("unit", f"{row['gpu_id']} {row['kind']} {row['slot']} is held by nobody")
    units = {
        (r["gpu_id"], r["kind"], r["slot"], r["allocation_id"]) for r in seen.store.rows["unit"]
    }
    for key, each in held.items():
        missing = [s for s in each["slots"] if (each["gpu"], "memory", s, key) not in units]
        if missing:
            yield _leak("unit row", f"{key} holds slots {missing} without a row")
        if vms[each["vm_id"]]["deleted_at"] is not None:
            yield _leak("allocation", f"{key} is held by {each['vm']}, which is deleted")
    for row in seen.store.rows["layout"]:
        if not row["settled"]:
            yield _leak("layout", f"GPU {row['gpu']} of {row['host']} takes no VM: not settled")


def _claims(seen: Seen, host: HostSeen) -> Iterator[Violation]:
    held, gpus = seen.store.on(host.name), {each["id"] for each in seen.store.rows["gpu"]}
    for claim in host.claims:
        if claim["fleet"] != seen.store.fleet or claim["wanted"].get("kind") == nics.KIND:
            continue
        owners = gpus if claim["wanted"].get("kind") == "layout" else held
        if claim["allocation"] not in owners:
            yield _leak("claim", f"{claim['unit']} on {host.name} is for {claim['allocation']}")


def _slices(seen: Seen, host: HostSeen, old: HostSeen | None) -> Iterator[Violation]:
    held = seen.store.on(host.name).values()
    devices = {each for row in held for each in (row["device"], *row["companions"])}
    partitions = {row["extra"].get("partition") for row in held}
    there: list[tuple[str, Any, Any]] = [
        ("mdev", set(host.mdevs), set(old.mdevs) if old else None),
        ("vGPU", set(host.vgpus), set(old.vgpus) if old else None),
        ("function on vfio-pci", host.bound, old.bound if old else None),
    ]
    for kind, found, known in there:
        left = found - devices
        for each in sorted(left - known if known is not None else _ours(host, left)):
            yield _leak(kind, f"{each} on {host.name} belongs to nothing")
    known = old.partitions if old else frozenset()
    for partition in sorted(host.partitions - partitions - known):
        yield _leak("partition", f"{partition} on {host.name} is active for nobody")


def _ours(host: HostSeen, devices: set[str]) -> set[str]:
    """Without a baseline only what stands under a claim is surely ours."""
    return {
        device
        for claim in host.claims
        for device in (claim["wanted"].get(key) for key in ("uuid", "vf", "address"))
        if device in devices
    }


def _instances(seen: Seen, host: HostSeen, old: HostSeen | None) -> Iterator[Violation]:
    """A GPU instance is of a VM, of a layout that the host keeps, or was there before."""
    wanted = {
        (part["gpu"], part["profile_id"], part["start"])
        for row in seen.store.on(host.name).values()
        if (part := row["extra"].get("instance"))
    }
    for claim in host.claims:
        kept = claim["wanted"]
        for each in (kept.get("instances") or ()) if kept.get("kind") == "layout" else ():
            wanted.add((kept["gpu"], each["profile_id"], each["start"]))
    for each in sorted(host.instances - wanted - (old.instances if old else frozenset())):
        yield _leak("GPU instance", f"{each} on {host.name}")


def _volumes(seen: Seen, host: HostSeen) -> Iterator[Violation]:
    """A volume's name carries the id of the VM that it was made for."""
    for pool, name in sorted(host.volumes):
        for row in seen.store.vms.values():
            if f"-{row['id'][:8]}-" in name and not _may_have(seen, host, row, pool, name):
                yield _leak("volume", f"{pool}/{name} on {host.name}, of {row['name']}")


def _may_have(seen: Seen, host: HostSeen, row: Row, pool: str, name: str) -> bool:
    if row["deleted_at"] is None:
        here = row["host"] == host.name or pool in host.shared_pools
        return here and [pool, name] in [*json.loads(row["volumes"]), *kept_volumes(row)]
    return _kept(seen, row, pool, name)


def kept_volumes(row: Row) -> list[list[str]]:
    """The volumes of a VM's snapshots."""
    tree = json.loads(row.get("snapshots") or "{}")
    return [volume for each in tree.get("snapshots", ()) for volume in each["volumes"]]


def _kept(seen: Seen, row: Row, pool: str, name: str) -> bool:
    """Was it deleted by somebody who said that its disks are to stay?"""
    deletions = [
        task
        for task in seen.store.tasks.values()
        if (task["vm_id"], task["verb"], task["state"]) == (row["id"], "delete", "done")
    ]
    deleted = [
        json.loads(s["args"]) for t in deletions for s in t["steps"] if s["kind"] == "DeleteVolume"
    ]
    return bool(deletions) and not any((a["pool"], a["name"]) == (pool, name) for a in deleted)


def _domains(seen: Seen, host: HostSeen) -> Iterator[Violation]:
    for domain in host.domains:
        row = seen.store.vms.get(domain.vm_id)
        if seen.is_ours(domain) and (row is None or row["deleted_at"] is not None):
            yield _leak("domain", f"{domain.name} on {host.name} is of no VM")


def _leak(kind: str, what: str) -> Violation:
    return Violation("I3", kind, what)
