"""What of the things that no tenant owns is shown to who is limited to tenants: the inventory,
never who uses it or how it is reached.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.access.redaction import IN_USE
from vgpumgr.model.domain import PoolSource
from vgpumgr.model.health import HealthRecord
from vgpumgr.model.host import HostFacts, HostRecord

if TYPE_CHECKING:
    from vgpumgr.model.gpu import GpuRecord
    from vgpumgr.model.image import ImageRecord
    from vgpumgr.model.supply import Usage

_NOT_SEEN = "the last look at it failed"


def host_for_tenant(record: HostRecord, own_vms: Collection[str]) -> HostRecord:
    """A host with the domains of these VMs (by id) alone: no address, key, claims or settings
    that an operator made.
    """
    return replace(
        HostRecord(name=record.name, address=""),
        cordoned=record.cordoned,
        labels=record.labels,
        cpu_overcommit=record.cpu_overcommit,
        reserved_memory_mib=record.reserved_memory_mib,
        accelerator=record.accelerator,
        layout=record.layout,
        physical_networks=record.physical_networks,
        draining=record.draining,
        maintenance=record.maintenance,
        membership=record.membership,
        generation=record.generation,
        facts=_facts(record.facts, own_vms) if record.facts else None,
        observed_at=record.observed_at,
        last_error=_NOT_SEEN if record.last_error else "",
    )


def _facts(facts: HostFacts, own_vms: Collection[str]) -> HostFacts:
    return HostFacts(
        host=facts.host,
        boot_id="",
        hostname="",
        versions=facts.versions,
        cpus=facts.cpus,
        memory_mib=facts.memory_mib,
        iommu=facts.iommu,
        kvm=facts.kvm,
        numa=facts.numa,
        gpus=facts.gpus,
        domains=tuple(each for each in facts.domains if each.uuid in own_vms),
        pools=tuple(replace(each, path="", source=PoolSource()) for each in facts.pools),
        networks=facts.networks,
        bridges=facts.bridges,
        filters=facts.filters,
        features=facts.features,
        nics=facts.nics,
        cpu_model=facts.cpu_model,
        hugepage_kib=facts.hugepage_kib,
        stopping=facts.stopping,
    )


def gpu_for_tenant(record: GpuRecord) -> GpuRecord:
    """A GPU without why it is out of use: that may name whose VM it refused, and what Xids report
    names processes.
    """
    return replace(record, state_why="", health=HealthRecord(state=record.health.state))


def usage_within(usage: Usage, vms: Collection[str]) -> Usage:
    """A GPU part that does not name its VM, but for these VMs."""
    return usage if usage.vm in vms else replace(usage, vm="", foreign=IN_USE)


def image_for_tenant(record: ImageRecord) -> ImageRecord:
    """An image without the place that it was imported from."""
    return replace(record, source="")
