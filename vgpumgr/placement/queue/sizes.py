"""How much of a fleet a VM takes, before anybody knows where it goes."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.placement import Fleet, GpuSupply, Offer
from vgpumgr.model.quota import Amount
from vgpumgr.placement.demand import Demand, Kind
from vgpumgr.placement.offers import matching

_LEAST = 1e-6
"""A VM that takes next to nothing is not worth more than a million others."""


class Sizes:
    """Against the whole of a fleet; what runs on it does not matter."""

    def __init__(self, fleet: Fleet) -> None:
        gpus = [gpu for host in fleet.hosts for gpu in host.gpus]
        self._boards = list({(gpu.model, gpu.offers): gpu for gpu in gpus}.values())
        self.gpu_memory_mib = sum(map(_memory_mib, gpus))
        self.vcpus = sum(host.vcpus or host.free_vcpus for host in fleet.hosts)
        self._known: dict[Demand, Amount] = {}

    def least(self, demand: Demand) -> Amount:
        """What it takes at least, wherever it goes: the smallest that answers each part."""
        known = self._known.get(demand)
        if known is None:
            offers = [(kind, self._smallest(kind)) for kind in demand.kinds]
            known = self._known[demand] = Amount(
                gpu_memory_mib=sum(k.count * o.memory_mib for k, o in offers if o),
                gpus=demand.parts,
                vcpus=demand.vcpus,
                vms=1,
                profiles={k.profile: k.count for k in demand.kinds if k.profile},
            )
        return known

    def share(self, amount: Amount) -> float:
        """The larger one of its shares of the fleet's GPU memory and vCPUs."""
        gpu = amount.gpu_memory_mib / self.gpu_memory_mib if self.gpu_memory_mib else 0.0
        cpu = amount.vcpus / self.vcpus if self.vcpus else 0.0
        return max(gpu, cpu, _LEAST)

    def _smallest(self, kind: Kind) -> Offer | None:
        found = (offer for gpu in self._boards for offer in _answers(gpu, kind))
        return min(found, key=lambda offer: offer.memory_mib, default=None)


def _answers(gpu: GpuSupply, kind: Kind) -> Iterable[Offer]:
    return matching(gpu.offers, kind) if kind.allows(gpu.model) else ()


def _memory_mib(gpu: GpuSupply) -> int:
    """Of a board whose memory nothing tells, its largest profile."""
    return max((offer.memory_mib for offer in gpu.offers), default=0)
