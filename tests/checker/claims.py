"""I2: a slice in use on a host is in the store with the same owner, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.checker import nics
from tests.checker.seen import HostSeen, Row, Seen
from tests.checker.violation import Violation

# Units of claims that are no part of a GPU given to a VM.
_LAYOUT, _FABRIC = "layout", "fabric"


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Claims against allocations, and allocations against claims and devices."""
    for host in seen.hosts.values():
        held = seen.store.on(host.name)
        claimed = dict(_claimed(seen, host))
        for key, claim in claimed.items():
            if key in held:
                yield from _claim(host, claim, held[key])
        for key, row in held.items():
            yield from _device(host, row)
            if key not in claimed:
                yield _differs("unclaimed", f"{_name(row)} on {host.name} has no claim")
        for domain in host.domains:
            if seen.is_ours(domain):
                yield from _domain(seen, host, domain.vm_id, domain.allocations, domain.devices)


def _claimed(seen: Seen, host: HostSeen) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Our claims for VMs, by allocation."""
    for claim in host.claims:
        kind = claim["wanted"].get("kind")
        if claim["fleet"] == seen.store.fleet and kind not in {_LAYOUT, _FABRIC, nics.KIND}:
            yield claim["allocation"], claim


def _claim(host: HostSeen, claim: Mapping[str, Any], row: Row) -> Iterator[Violation]:
    wanted, where = claim["wanted"], f"claim {claim['unit']} on {host.name}"
    device = wanted.get("uuid") or wanted.get("vf") or wanted.get("address")
    if device != row["device"]:
        yield _differs("device", f"{where} is for {device}, the store says {row['device']}")
    if claim["vm"] != row["vm"]:
        yield _differs("owner", f"{where} names {claim['vm']}, the store says {row['vm']}")
    if claim["generation"] != row["generation"]:
        yield _differs(
            "generation", f"{where}: {claim['generation']}, the store says {row['generation']}"
        )


def _device(host: HostSeen, row: Row) -> Iterator[Violation]:
    """Is what the store says is held really made on the host?"""
    device, framework = row["device"], row["framework"]
    if framework == "mdev":
        found = host.mdevs.get(device)
        there = found and (found["parent"], found["type"]) == (row["parent"], row["type_id"])
    elif framework == "vfio-vf":
        there = str(host.vgpus.get(device)) == row["type_id"]
    else:
        there = {device, *row["companions"]} <= host.bound
    if not there:
        yield _differs("not made", f"{_name(row)} is not on {host.name}")
    part = row["extra"].get("instance")
    if part and (part["gpu"], part["profile_id"], part["start"]) not in host.instances:
        yield _differs("no instance", f"{_name(row)} has no GPU instance on {host.name}")
    partition = row["extra"].get("partition")
    if partition is not None and partition not in host.partitions:
        yield _differs("no partition", f"{_name(row)}: partition {partition} is not active")


def _domain(
    seen: Seen, host: HostSeen, vm_id: str, marked: tuple[str, ...], devices: tuple[str, ...]
) -> Iterator[Violation]:
    """The devices in a definition of ours are those that its VM holds there."""
    held = {key: row for key, row in seen.store.on(host.name).items() if row["vm_id"] == vm_id}
    wanted = {each for row in held.values() for each in (row["device"], *row["companions"])}
    if set(devices) != wanted:
        yield _differs(
            "definition", f"VM {vm_id} on {host.name} has {sorted(devices)}, not {sorted(wanted)}"
        )
    if set(marked) != set(held):
        yield _differs(
            "mark", f"VM {vm_id} on {host.name} is marked {sorted(marked)}, not {sorted(held)}"
        )


def _name(row: Row) -> str:
    return f"{row['profile']} {row['device']} of {row['vm']} ({row['id'][:8]})"


def _differs(kind: str, what: str) -> Violation:
    return Violation("I2", kind, what)
