"""Observations in the ledger: a probe's facts of a host, and the digest of its supply."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr import catalog
from vgpumgr.model import formats
from vgpumgr.model.codec import dump
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts, GpuHealth, GpuState, MigFacts
from vgpumgr.model.host import ClaimFacts, HostFacts
from vgpumgr.store.ledger.audit_trail import Stamp, of_gpus, write
from vgpumgr.store.ledger.gpus import KnownGpu, known_gpus, new_gpu_id, recognise
from vgpumgr.store.ledger.hosts import get_host
from vgpumgr.store.ledger.probe_facts import dump_gpu, without_detail
from vgpumgr.store.ledger.rows import decodes
from vgpumgr.store.ledger.state_changes import StateChange
from vgpumgr.store.schema import gpu, host

# What our own work on a host moves (free memory of pools, huge pages in use, our domains, mdevs,
# vGPUs and GPU instances, counts of creatable types, bound drivers) is left out: the ledger
# accounts for it, and two plans must not fail each other by merely looking.


def host_supply(facts: HostFacts, fleet: str) -> str:
    """A digest of the host's CPUs, memory, networks, and what foreigners use."""
    claims = [claim for claim in facts.claims if claim.fleet == fleet]
    ours = {claim.unit for claim in claims}
    foreign_domains = [
        domain
        for domain in facts.domains
        if domain.ownership is None or domain.ownership.fleet != fleet
    ]
    return _digest(
        facts.versions,
        facts.cpus,
        facts.memory_mib,
        facts.iommu,
        facts.kvm,
        [replace(node, hugepages_free={}) for node in facts.numa],
        sorted(mdev.uuid for mdev in facts.mdevs if formats.mdev_claim(mdev.uuid) not in ours),
        sorted(_foreign_vgpus(facts, ours)),
        sorted(_standing_instances(facts, claims)),
        sorted(_partitions(facts, ours)),
        facts.cpu_model,
        sorted(foreign_domains, key=lambda domain: domain.name),
        sorted((pool.name, pool.path, pool.active) for pool in facts.pools),
        sorted(facts.networks),
        sorted(facts.bridges),
        sorted(unknown.part for unknown in facts.unknown),
    )


def _foreign_vgpus(facts: HostFacts, ours: Collection[str]) -> Iterator[str]:
    """VFs that carry a vGPU of somebody else."""
    for board in facts.gpus:
        for vf in board.vfs:
            carried = vf.vendor.type_id if vf.vendor else 0
            if carried != 0 and formats.pci_claim(vf.address) not in ours:
                yield f"{vf.address} {carried}"


def _standing_instances(facts: HostFacts, claims: list[ClaimFacts]) -> Iterator[str]:
    """GPU instances that no vGPU of ours brought with it, and GPUs whose could not be read."""
    made = {_instance(claim.wanted.get("instance")) for claim in claims}
    for board in facts.gpus:
        if board.mig is None:
            continue
        if board.mig.instances is None:
            yield f"{board.device} unknown"
        for each in board.mig.instances or ():
            if (board.device, each.profile_id, each.start) not in made:
                yield f"{board.device} {each.profile_id} {each.start}"


def _instance(wanted: object) -> tuple[object, ...]:
    """The instance of a claim that makes one (docs/helper-protocol.md, Claim)."""
    if isinstance(wanted, dict) and wanted.get("make"):
        return wanted.get("gpu"), wanted.get("profile_id"), wanted.get("start")
    return ()


def _partitions(facts: HostFacts, ours: Collection[str]) -> Iterator[str]:
    """NVSwitch partitions, and which of them somebody else has active."""
    for each in facts.fabric.partitions if facts.fabric else ():
        taken = each.active and formats.fabric_claim(each.id) not in ours
        yield f"{each.id} {each.gpus} {taken}"


def gpu_supply(facts: GpuFacts) -> str:
    """A digest of what the GPU is and can make."""
    return _digest(
        facts.device,
        facts.path,
        facts.model,
        facts.vendor_device,
        facts.numa_node,
        facts.memory_mib,
        facts.iommu_group,
        sorted(facts.group_devices),
        facts.boot_vga,
        sorted((each.type_id, each.name) for each in facts.mdev_types),
        facts.type_units,
        facts.siblings,
        facts.sriov_total,
        [(vf.number, vf.address) for vf in facts.vfs],
        sorted({(each.type_id, each.name) for vf in facts.vfs for each in vf.mdev_types}),
        facts.mig and (facts.mig.enabled, facts.mig.pending, _profiles(facts.mig)),
        facts.mixed_size,
        sorted(facts.vgpu_capabilities),
        facts.module_id,
        facts.health if facts.unfit else GpuHealth.OK,
        *filter(None, [catalog.contradiction(facts), facts.mig and facts.mig.types]),
    )


def _profiles(mig: MigFacts) -> list[object]:
    return [(each.profile_id, each.size, each.starts) for each in mig.profiles]


def _digest(*parts: object) -> str:
    return sha256(dump(parts).encode()).hexdigest()[:32]


# Parts of a probe without which a GPU that is not listed may still be there.
_INVENTORY_PARTS = frozenset({"devices", "parents", "helper"})


def observe(
    connection: Connection,
    stamp: Stamp,
    facts: HostFacts,
    units: Mapping[str, int],
    at: float,
    fleet: str,
) -> None:
    """Keep one probe. Conflict (nothing written) when the evidence of a GPU disagrees.

    A GPU that was known stays known by its UUID and serial where a probe could not read them
    (a GPU bound to vfio-pci is invisible to NVML).
    """
    _keep_host(connection, stamp, facts, at, fleet)
    known = known_gpus(connection, facts)
    found = recognise(facts.host, facts.gpus, known)
    try:
        for seen, match in zip(facts.gpus, found, strict=True):
            count = units.get(seen.device, 1)
            if match is None:
                _add(connection, stamp, facts.host, seen, count, at)
            else:
                _refresh(connection, stamp, facts.host, seen, match, count)
    except IntegrityError as error:
        raise Conflict(
            f"another host shows a GPU of {facts.host} at this moment",
            why=str(error.orig),
            next=f"vgpumgr host probe {facts.host}",
        ) from error
    if not _INVENTORY_PARTS & {unknown.part for unknown in facts.unknown}:
        _mark_missing(connection, stamp, facts.host, known, found)


_IS_HOST = (host.c.name == bindparam("in_host")) & host.c.removed_at.is_(None)
_OLD = select(host.c.id, host.c.name, host.c.supply, host.c.facts).where(_IS_HOST).with_for_update()
_KEEP = (
    update(host)
    .where(_IS_HOST)
    .values(last_error="", generation=host.c.generation + bindparam("raised"))
)


def _keep_host(
    connection: Connection, stamp: Stamp, facts: HostFacts, at: float, fleet: str
) -> None:
    old = connection.execute(_OLD, {"in_host": facts.host}).one_or_none()
    if old is None:
        get_host(connection, facts.host)  # NotFound, with near names
        return
    _tell_boot(connection, stamp, facts, old)
    supply = host_supply(facts, fleet)
    connection.execute(
        _KEEP,
        {
            "in_host": facts.host,
            "facts": dump(without_detail(facts)),
            "supply": supply,
            "observed_at": at,
            "raised": 0 if old.supply == supply else 1,
        },
    )


def _tell_boot(connection: Connection, stamp: Stamp, facts: HostFacts, old: Any) -> None:
    """A boot takes what a host had in memory: it is told, although nobody changed anything."""
    before = _boot(old) if old.facts else facts.boot_id
    if before != facts.boot_id:
        told = {"event": "host.booted", "host": facts.host, "detail": f"boot {facts.boot_id}"}
        write(connection, stamp, [told])


@decodes(host)
def _boot(row: Any) -> str:
    return str(json.loads(row.facts)["boot_id"])


def _add(
    connection: Connection, stamp: Stamp, name: str, seen: GpuFacts, units: int, at: float
) -> None:
    id_ = new_gpu_id(connection)
    write(connection, stamp, [_told("gpu.found", name, seen, id_, seen.model)])
    connection.execute(
        insert(gpu).values(
            id=id_,
            host=name,
            device=seen.device,
            uuid=seen.uuid,
            serial=seen.serial,
            vendor_device=seen.vendor_device,
            facts=dump_gpu(seen),
            supply=gpu_supply(seen),
            units=max(1, units),
            state=GpuState.HEALTHY.value,
            generation=1,
            first_seen_at=at,
        )
    )


def _told(event: str, name: str, seen: GpuFacts, id_: str, detail: str = "") -> dict[str, object]:
    return {"event": event, "host": name, "gpu": id_, "device": seen.device, "detail": detail}


def _refresh(
    connection: Connection, stamp: Stamp, name: str, seen: GpuFacts, old: KnownGpu, units: int
) -> None:
    seen = replace(seen, uuid=seen.uuid or old.uuid, serial=seen.serial or old.serial)
    facts, supply = dump_gpu(seen), gpu_supply(seen)
    units = max(1, units, old.held_slots)
    state = GpuState.HEALTHY if old.state is GpuState.MISSING else old.state
    moved = (old.host, old.supply, old.units, old.state) != (name, supply, units, state)
    if not moved and facts == old.facts:
        return
    if (old.host, old.device) != (name, seen.device):
        write(connection, stamp, [_told("gpu.moved", name, seen, old.id, f"from {old.place()}")])
    elif state is not old.state:
        write(connection, stamp, [_told(f"gpu.{state}", name, seen, old.id)])
    connection.execute(
        _SEEN,
        {
            "in_gpu": old.id,
            "host": name,
            "device": seen.device,
            "uuid": seen.uuid,
            "serial": seen.serial,
            "vendor_device": seen.vendor_device or old.vendor_device,
            "facts": facts,
            "supply": supply,
            "units": units,
            "state": state.value,
            "raised": 1 if moved else 0,
        },
    )


_THIS = (gpu.c.id == bindparam("in_gpu"),)
_SEEN = update(gpu).where(*_THIS).values(generation=gpu.c.generation + bindparam("raised"))
_MISSING = StateChange(
    update(gpu).where(*_THIS).values(state=GpuState.MISSING.value, generation=gpu.c.generation + 1),
    of_gpus("gpu.missing", *_THIS),
)


def _mark_missing(
    connection: Connection,
    stamp: Stamp,
    name: str,
    known: tuple[KnownGpu, ...],
    found: list[KnownGpu | None],
) -> None:
    """A complete probe does not show them. Their allocations stay: looking never frees."""
    seen = {match.id for match in found if match is not None}
    for old in known:
        if old.host == name and old.id not in seen and old.state is GpuState.HEALTHY:
            _MISSING.run(connection, {"in_gpu": old.id, **stamp.values})
