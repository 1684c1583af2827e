"""How many parts of one kind a GPU still takes."""

from __future__ import annotations

from vgpumgr.model.placement import Offer, Reason
from vgpumgr.placement.demand import Demand, Kind
from vgpumgr.placement.geometry import Spot
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.offers import whole
from vgpumgr.placement.rules.gpu import judge


def room(gpu: GpuState, kind: Kind, demand: Demand) -> int:
    """How many parts of ``kind`` this GPU can still take, for one VM or for several."""
    offers = gpu.matching(kind)
    if len(offers) > 1:
        return _by_trying(gpu, kind, demand)
    if not offers or isinstance(judge(gpu, offers[0], demand.vgpus), Reason):
        return 0
    return 1 if whole(offers[0]) else gpu.room(offers[0])


def places(gpu: GpuState, kind: Kind, demand: Demand) -> tuple[Offer, tuple[Spot, ...]] | None:
    """The best offer for ``kind`` that the GPU can make now, and where it may lie, best first."""
    for offer in gpu.matching(kind):
        verdict = judge(gpu, offer, demand.vgpus)
        if not isinstance(verdict, Reason):
            return offer, verdict
    return None


def first_fit(gpu: GpuState, kind: Kind, demand: Demand) -> tuple[Offer, Spot] | None:
    """The best offer for ``kind`` that the GPU can make now, and the best place for it."""
    found = places(gpu, kind, demand)
    return found and (found[0], found[1][0])


def _by_trying(gpu: GpuState, kind: Kind, demand: Demand) -> int:
    """Offers of several sizes take room from each other."""
    taken = []
    while found := first_fit(gpu, kind, demand):
        taken.append(gpu.take(*found))
    for each in reversed(taken):
        gpu.give_back(each)
    return len(taken)
