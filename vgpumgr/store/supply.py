"""What of an observation decides placement, as a digest: did the supply change? Pure.

What our own work on a host moves (free memory of pools, huge pages in use, our domains, mdevs,
vGPUs and GPU instances, counts of creatable types, bound drivers) is left out: the ledger accounts
for it, and two plans must not fail each other by merely looking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from hashlib import sha256

from vgpumgr import catalog
from vgpumgr.model import claim_units
from vgpumgr.model.gpu import GpuFacts, GpuHealth, MigFacts
from vgpumgr.model.host import ClaimFacts, HostFacts
from vgpumgr.store.codec import dump


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
        sorted(mdev.uuid for mdev in facts.mdevs if claim_units.mdev(mdev.uuid) not in ours),
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
    for gpu in facts.gpus:
        for vf in gpu.vfs:
            carried = vf.vendor.type_id if vf.vendor else 0
            if carried != 0 and claim_units.pci(vf.address) not in ours:
                yield f"{vf.address} {carried}"


def _standing_instances(facts: HostFacts, claims: list[ClaimFacts]) -> Iterator[str]:
    """GPU instances that no vGPU of ours brought with it, and GPUs whose could not be read."""
    made = {_instance(claim.wanted.get("instance")) for claim in claims}
    for gpu in facts.gpus:
        if gpu.mig is None:
            continue
        if gpu.mig.instances is None:
            yield f"{gpu.device} unknown"
        for each in gpu.mig.instances or ():
            if (gpu.device, each.profile_id, each.start) not in made:
                yield f"{gpu.device} {each.profile_id} {each.start}"


def _instance(wanted: object) -> tuple[object, ...]:
    """The instance of a claim that makes one (docs/helper-protocol.md, Claim)."""
    if isinstance(wanted, dict) and wanted.get("make"):
        return wanted.get("gpu"), wanted.get("profile_id"), wanted.get("start")
    return ()


def _partitions(facts: HostFacts, ours: Collection[str]) -> Iterator[str]:
    """NVSwitch partitions, and which of them somebody else has active."""
    for each in facts.fabric.partitions if facts.fabric else ():
        taken = each.active and claim_units.fabric(each.id) not in ours
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
