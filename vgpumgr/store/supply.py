"""What of an observation decides placement, as a digest: did the supply change? Pure.

What our own work on a host moves (free memory of pools, huge pages in use, our domains and
mdevs, counts of creatable types, bound drivers) is left out: the ledger accounts for it, and two
plans must not fail each other by merely looking.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.store.codec import dump


def host_supply(facts: HostFacts, fleet: str) -> str:
    """A digest of the host's CPUs, memory, networks, and what foreigners use."""
    ours = {claim.unit.removeprefix("mdev-") for claim in facts.claims if claim.fleet == fleet}
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
        sorted(mdev.uuid for mdev in facts.mdevs if mdev.uuid not in ours),
        sorted(foreign_domains, key=lambda domain: domain.name),
        sorted((pool.name, pool.path, pool.active) for pool in facts.pools),
        sorted(facts.networks),
        sorted(facts.bridges),
        sorted(unknown.part for unknown in facts.unknown),
    )


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
    )


def _digest(*parts: object) -> str:
    return sha256(dump(parts).encode()).hexdigest()[:32]
