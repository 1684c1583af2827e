"""Many requests at once: the order in which to decide them is ours to choose.

Orders come sorted: forty large VMs, then two hundred small ones. Decided as they come, the large
ones spoil what the small ones would have filled up, or the other way round. Each type spread
evenly over the whole order, GPUs fill up with a bit of everything, as the mix and the plan expect:
better than as given, than largest first, and than an order by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand, demand_of
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.plan.groups import group_key


def place_bulk(
    placer: Placer, requests: Sequence[VmSpec], *, explain: bool = True
) -> tuple[Decision, ...]:
    """Decide and commit requests of one order, spread evenly; decisions as ``requests`` go."""
    decisions: dict[int, Decision] = {}
    for index in evenly(requests):
        decision = decisions[index] = placer.decide(requests[index], explain=explain)
        if isinstance(decision, Placed):
            placer.commit(decision)
    return tuple(decisions[index] for index in range(len(requests)))


def evenly(requests: Sequence[VmSpec]) -> list[int]:
    """Positions of the requests in an order that spreads each type evenly from end to end.

    Number n of the c requests of a type is due at (n + ½) / c; the largest goes first where two
    are due at once. Requests of one type stay as given.
    """
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
    return demand_of(request, PlacementPolicy.LEAST_FRAGMENTATION, founding=False)
