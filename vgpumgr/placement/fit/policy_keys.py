"""Sort keys of the placement policies: lower keys win, equal keys go by the fleet's order.

A key may depend only on the GPU and host it is about: that is what lets a decision re-score
only the one host that the decision before it changed. ``capacity-first`` needs numbers
that no GPU alone has: here depth-first stands in for it, where only feasibility matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.resources.demand import Rank
from vgpumgr.placement.resources.gpu_slots import Spot
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState

Key = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """How one policy orders GPUs for an offer, and hosts where their GPUs are equal.

    ``places``: it tells places on one GPU apart; else the first that the rules name is taken.
    """

    gpu: Callable[[GpuOccupancy, Offer, Spot], Key]
    host: Callable[[HostState], Key]
    places: bool = False


def _emptiest_gpu(gpu: GpuOccupancy, _offer: Offer, spot: Spot) -> Key:
    return -gpu.free_units, spot.make_instance, spot.broken, gpu.can_go_whole


def _emptiest_host(host: HostState) -> Key:
    return -host.free_units, -host.memory_mib, -host.free_vcpus


def _fullest_gpu(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
    uncut = not gpu.suits(offer)
    return spot.make_instance, uncut, gpu.free_units, spot.broken, gpu.can_go_whole


def _fullest_host(host: HostState) -> Key:
    return host.free_units, host.memory_mib, host.free_vcpus


KEYS: Mapping[PlacementPolicy, Keys] = {
    PlacementPolicy.BREADTH_FIRST: Keys(_emptiest_gpu, _emptiest_host),
    PlacementPolicy.DEPTH_FIRST: Keys(_fullest_gpu, _fullest_host),
    PlacementPolicy.CAPACITY_FIRST: Keys(_fullest_gpu, _fullest_host),
}


# Exact: a key's fields fit the 53 bits of a float side by side, and keep their order.


BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
_BROKEN, _FREE = 1 << 8, 1 << 28


def packed_key(policy: PlacementPolicy, key: Key) -> float:
    """One number for the key that the policy gives a GPU."""
    if policy is BREADTH:
        free, makes, broken, whole = key
        return float(((free * 2 + makes) * _BROKEN + broken) * 2 + whole)
    makes, uncut, free, broken, whole = key
    return float((((makes * 2 + uncut) * _FREE + free) * _BROKEN + broken) * 2 + whole)


def packed_rank(rank: Rank) -> int:
    """One number above 0 for the rank of an offer: memory in MiB, whole, series, in an instance."""
    memory_mib, is_whole, series, instance = rank
    return ((memory_mib * 2 + is_whole) * 8 + series) * 2 + instance + 1
