"""Hosts in JSON: the ledger's record, the facts of the last probe, and what was refused there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.endpoints.host_looks import Look, look_item
from vgpumgr.endpoints.refusal_items import BACK_OFF, Refusals, refusals_item
from vgpumgr.endpoints.shapes import Time
from vgpumgr.helper import VERSION
from vgpumgr.model.codec import to_plain
from vgpumgr.model.formats import counted
from vgpumgr.model.host import HostRecord, Membership, StoragePool
from vgpumgr.model.nic import NicFacts
from vgpumgr.model.refusal import Refusal, of_place


class MigrationItem(TypedDict):
    """Where other hosts send a running VM; ``tls_name`` empty: the address."""

    address: str
    tls: bool
    tls_name: str
    bandwidth_mib_s: int | None


class FenceItem(TypedDict):
    """The programs that switch a host off, and that say whether it is, as argument lists;
    ``secret`` is the name of what they read, or empty.
    """

    off: list[str]
    status: list[str]
    secret: str


class VersionsItem(TypedDict, total=False):
    """Versions as dotted text; empty: unknown."""

    kernel: str
    libvirt: str
    qemu: str
    driver: str
    helper: str


class UnreadPart(TypedDict):
    """A part of a probe that could not be read, and why."""

    part: str
    why: str


class StorageItem(TypedDict):
    """A storage pool: its ``kind`` in libvirt's words, its size, and what is free for new disks."""

    name: str
    kind: str
    capacity_bytes: int
    free_bytes: int


class HostNic(TypedDict):
    """A NIC with SR-IOV: its interface, and how many of the ``vfs_total`` VFs that it can have are
    on. ``networks`` are the physical networks that it is joined to.
    """

    name: str
    device: str
    driver: str | None
    numa_node: int | None
    up: bool
    speed_mbit: int | None
    vfs_total: int
    vfs: int
    networks: list[str]


class HostItem(Refusals, Look):
    """A host. ``state`` is the worst of its states in one word; ``helper_due``: another version of
    the helper is there than this vgpumgr brings along.
    """

    name: str
    state: str
    address: str
    host_key: str
    cordoned: bool
    labels: dict[str, str]
    migration: MigrationItem | None
    draining: bool
    logoff_by: Time | None
    maintenance: bool
    membership: str
    evacuated: bool
    layout: str
    fence: FenceItem | None
    last_error: str
    gpu_count: int
    models: list[str]
    cpus: int
    cpu_model: str
    memory_mib: int
    iommu: bool | None
    kvm: bool | None
    boot_id: str
    settled_boot: str
    versions: VersionsItem
    helper_due: bool
    pools: list[str]
    storage: list[StorageItem]
    stalled_pools: list[str]
    networks: list[str]
    bridges: list[str]
    nics: list[HostNic]
    fabric: dict[str, Any] | None
    unknown: list[UnreadPart]


def _nic(nic: NicFacts, host: HostRecord) -> HostNic:
    return {
        "name": nic.name,
        "device": nic.device,
        "driver": nic.driver,
        "numa_node": nic.numa_node,
        "up": nic.up,
        "speed_mbit": nic.speed_mbit,
        "vfs_total": nic.sriov_total,
        "vfs": len(nic.vfs),
        "networks": [name for name, nics in host.physical_networks.items() if nic.name in nics],
    }


def _storage(pool: StoragePool) -> StorageItem:
    return {
        "name": pool.name,
        "kind": pool.kind,
        "capacity_bytes": pool.capacity_bytes,
        "free_bytes": pool.room_bytes,
    }


def host_item(
    host: HostRecord, refusals: Sequence[Refusal] = (), vms: Collection[str] | None = None
) -> HostItem:
    """The JSON of a host; ``refusals`` are what the fleet refused, told of for ``vms`` alone where
    these are given.
    """
    facts, own = host.facts, refusals_item(of_place(refusals, host.name, ""), vms)
    state = host_state(host)
    helper = facts.versions.helper if facts else ""
    return {
        "name": host.name,
        "state": BACK_OFF if state == "ready" and own["back_off_s"] else state,
        **own,
        "address": host.address,
        "host_key": host.host_key,
        "cordoned": host.cordoned,
        "labels": dict(host.labels),
        "migration": to_plain(host.migration),
        "draining": host.draining,
        "logoff_by": host.logoff_by,
        "maintenance": host.maintenance,
        "membership": str(host.membership),
        "evacuated": host.evacuated,
        "layout": host.layout,
        "fence": to_plain(host.fence),
        **look_item(host),
        "last_error": host.last_error,
        "gpu_count": len(facts.gpus) if facts else 0,
        "models": sorted({gpu.model for gpu in facts.gpus}) if facts else [],
        "cpus": facts.cpus if facts else 0,
        "cpu_model": facts.cpu_model if facts else "",
        "memory_mib": facts.memory_mib if facts else 0,
        "iommu": facts.iommu if facts else None,
        "kvm": facts.kvm if facts else None,
        "boot_id": facts.boot_id if facts else "",
        "settled_boot": host.settled_boot,
        "versions": to_plain(facts.versions) if facts else {},
        "helper_due": helper not in {"", VERSION},
        "pools": [pool.name for pool in facts.pools] if facts else [],
        "storage": [_storage(pool) for pool in facts.pools] if facts else [],
        "stalled_pools": list(facts.stalled_pools) if facts else [],
        "networks": list(facts.networks) if facts else [],
        "bridges": list(facts.bridges) if facts else [],
        "nics": [_nic(nic, host) for nic in facts.nics] if facts else [],
        "fabric": to_plain(facts.fabric) if facts else None,
        "unknown": [to_plain(part) for part in facts.unknown] if facts else [],
    }


def host_state(host: HostRecord) -> str:
    """The worst of a host's states as one word; a host in maintenance may be off."""
    if host.membership is not Membership.MEMBER:
        return str(host.membership)
    if host.maintenance:
        return "maintenance"
    if host.last_error:
        return "unreachable"
    if host.draining:
        return "draining"
    if host.cordoned:
        return "cordoned"
    if host.facts is None:
        return "unknown"
    if host.settled_boot not in {"", host.facts.boot_id}:
        return "returning"
    return "partial" if host.facts.unknown else "ready"


def probe_summary(record: HostRecord) -> str:
    """``2 GPUs, 5 domains``, and what could not be read."""
    facts = record.facts
    if facts is None:
        return "enrolled"
    unknown = "".join(f"; could not read {part.part}: {part.why}" for part in facts.unknown)
    return f"{counted(len(facts.gpus), 'GPU')}, {counted(len(facts.domains), 'domain')}{unknown}"
