"""Bulk orders: the order in which many requests are decided, spread evenly or the largest first.

Orders come sorted: forty large VMs, then two hundred small ones. Decided in that order, the large
ones spoil what the small ones would have filled up, or the other way round. With each type spread
evenly over the order, GPUs fill up with a bit of everything, as mix and plan expect: better than
the order as given, than the largest first, and than an order by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.capacity_plan.quota_plan import group_key
from vgpumgr.placement.resources.demand import Demand, PartKind, demand_of
from vgpumgr.placement.resources.host_state import FleetState


def evenly(requests: Sequence[VmSpec]) -> list[int]:
    """Positions of the requests in an order that spreads each type evenly from end to end.

    Number n of the c requests of a type is due at (n + ½) / c; the largest goes first where two
    are due at once. Requests of one type stay as given.
    """
    if len(requests) == 1:
        return [0]
    demands = [_digest(request) for request in requests]
    types: list[Hashable] = [group_key(demand) for demand in demands]
    totals, seen = Counter(types), Counter[Hashable]()
    due: list[tuple[float, int, int, int, int]] = []
    for index, (demand, kind) in enumerate(zip(demands, types, strict=True)):
        when = (seen[kind] + 0.5) / totals[kind]
        due.append((when, -demand.whole, -demand.parts, -demand.vcpus, index))
        seen[kind] += 1
    return [index for *_, index in sorted(due)]


def _digest(request: VmSpec) -> Demand:
    return demand_of(request, PlacementPolicy.CAPACITY_FIRST, founding=False)


def largest_first(fleet: Fleet, requests: Sequence[VmSpec]) -> list[int]:
    """Positions of the requests by the most GPU units they can take; equal ones as given."""
    state = FleetState(fleet)
    units: dict[PartKind, int] = {}

    def size(index: int) -> tuple[int, int]:
        demand = state.digest(requests[index], PlacementPolicy.BREADTH_FIRST)
        for kind in demand.kinds:
            if kind not in units:
                units[kind] = _most_units(state, kind)
        wanted = sum(kind.count * units[kind] for kind in demand.kinds)
        return -demand.whole, -wanted

    return sorted(range(len(requests)), key=size)


def _most_units(state: FleetState, kind: PartKind) -> int:
    """Units of one part on the GPU where it takes the most."""
    makers = (gpu for host in state.hosts for gpu in host.makers(kind))
    return max((gpu.matching(kind)[0].units for gpu in makers), default=0)
