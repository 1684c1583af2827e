"""Where VMs are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True)
class Site:
    """Where VMs are made: the host, its last probe, its GPUs, and the fleet's id.

    ``made`` are the GPU instances that exist because VMs needed them: first slices by GPU's id.
    """

    fleet: str
    host: HostRecord
    facts: HostFacts
    gpus: dict[str, GpuRecord]
    made: Mapping[str, frozenset[int]]

    @property
    def modules(self) -> dict[str, int | None]:
        """Physical ids on an NVSwitch board, by GPU."""
        return {each.id: each.facts.module_id for each in self.gpus.values()}

    def autostarts(self, spec: VmSpec) -> bool:
        """Does libvirt here start the VM with the host?"""
        return autostarts(spec, self.host)


def autostarts(spec: VmSpec, host: HostRecord) -> bool:
    """By libvirt: never on a host that can be fenced, whose VMs may be elsewhere when it boots."""
    return spec.autostart and host.fence is None


def volume_path(facts: HostFacts, pool: str, name: str) -> str:
    """Where a volume lies; NotFound for a pool that the host does not show."""
    target = next((each.path for each in facts.pools if each.name == pool), None)
    if target is None:
        raise NotFound(
            f"host {facts.host} shows no storage pool {pool}",
            why=f"it has: {', '.join(each.name for each in facts.pools) or 'none'}",
            next=f"vgpumgr host probe {facts.host}",
        )
    return f"{target.rstrip('/')}/{name}"
