"""Empty GPUs as placement would see them with another layout, worked out once per shape."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from functools import cached_property

from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.engine.inventory.gpu_supply import gpu_supply
from vgpumgr.engine.inventory.gpu_usage import HostContents
from vgpumgr.engine.inventory.host_supply import host_contents
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.hypothetical_layouts import goals, partitioned
from vgpumgr.model.gpu import GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.supply import GpuSupply


class RelaidGpus:
    """GPUs of one reading of the ledger, each by the first layout with which it makes any of
    ``profiles``.
    """

    def __init__(self, view: LedgerView, profiles: Collection[str]) -> None:
        self._view = view
        self._profiles = profiles
        self._known: dict[Hashable, GpuSupply] = {}

    def supply(self, gpu_id: str) -> GpuSupply:
        """An empty GPU that takes VMs, as it is where no layout helps; one object, with id and
        addresses of one of them, for GPUs with the same evidence.
        """
        gpu = self._gpus[gpu_id]
        host = self._contents[gpu.host]
        key = evidence(gpu, host)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = gpu_supply(self._relaid(gpu, host), host)
        return found

    def _relaid(self, gpu: GpuRecord, host: HostContents) -> GpuRecord:
        for goal in goals(gpu.facts):
            other = partitioned(gpu, goal, host.facts.versions.kernel)
            if other and any(o.profile in self._profiles for o in frameworks.offers(other.facts)):
                return other
        return gpu

    @cached_property
    def _gpus(self) -> dict[str, GpuRecord]:
        return {gpu.id: gpu for gpu in self._view.gpus}

    @cached_property
    def _contents(self) -> dict[str, HostContents]:
        return host_contents(self._view)


def evidence(gpu: GpuRecord, host: HostContents) -> Hashable:
    """All that decides what an empty GPU that takes VMs gives after any layout: everything but
    names, addresses and where it is attached.
    """
    facts, unread = gpu.facts, host.facts.unknown
    return (
        gpu.units,
        host.facts.versions,
        (unread, facts.device) if unread else (),
        facts.model,
        facts.vendor_device,
        facts.name,
        facts.memory_mib,
        facts.driver,
        facts.address is None,
        facts.mdev_types,
        tuple(facts.type_units.items()),
        tuple(facts.vf_types.items()),
        facts.sriov_total,
        _vfs(facts),
        facts.mig,
        facts.mixed_size,
        facts.scheduler,
        facts.health,
        facts.health_detail,
        gpu.health.state,
    )


def _vfs(facts: GpuFacts) -> Hashable:
    """Of a board of the catalogue the number tells: what they carry is the catalogue's to say."""
    listed = catalog.board(facts.model) or catalog.sriov_board(facts.model)
    return len(facts.vfs) if listed else tuple(map(_carried, facts.vfs))


def _carried(vf: VfFacts) -> Hashable:
    return vf.driver, vf.vendor, vf.mdev_types
