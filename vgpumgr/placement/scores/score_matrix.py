"""The score matrix of one fleet: a score plane per policy, made when first asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, GroupKey, group_key
from vgpumgr.placement.capacity_plan.state_transitions import StateWorth
from vgpumgr.placement.fit.host_fit import Fit
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.host_state import FleetState, HostState
from vgpumgr.placement.scores.fragmentation import (
    HostFragmentation,
    MixRows,
    Weighted,
    fragmentation,
)
from vgpumgr.placement.scores.fragmentation_plane import FragmentationPlane
from vgpumgr.placement.scores.key_order_plane import KeyHeads, KeyOrderPlane
from vgpumgr.placement.scores.plan_quotas import PlanQuotas
from vgpumgr.placement.scores.state_values import values_of
from vgpumgr.placement.tables.gpu_states import StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRows
from vgpumgr.placement.tables.request_types import Ints

_CAPACITY = PlacementPolicy.CAPACITY_FIRST
_REMEMBERED = 4096

MOST_TYPES = 1024
"""Types that one policy keeps up; with one more all are forgotten, and come up anew."""


class ScoreMatrix:
    """Where each type of request would go, kept up to date host by host.

    ``order`` are the hosts' positions in the fleet in the order in which ties are broken; ``mix``
    is asked for when the first request of ``capacity-first`` comes. ``valued``: GPUs in MIG
    and in mixed-size mode are weighed by what their states will lose, the former where the mix is
    ``known``, not assumed.
    """

    def __init__(
        self,
        fleet: FleetState,
        order: Sequence[int],
        mix: Callable[[], list[Weighted]],
        *,
        valued: bool = True,
        known: bool = False,
    ) -> None:
        self._mix = mix
        self._valued = valued
        self._known_mix = known
        self._boards = fleet.boards
        self._table = StateTable(fleet.boards)
        self._hosts = HostRows([fleet.hosts[position] for position in order], self._table)
        self._rank = np.argsort(np.array(order, np.int64))
        self._plan: CapacityPlan | None = None
        self._quotas: PlanQuotas | None = None
        self._filters = HostFilters(self._hosts.states)
        self._number_hosts()
        self._planes: dict[PlacementPolicy, KeyOrderPlane | FragmentationPlane] = {}
        self._types: dict[Demand, int] = {}
        self._latest: dict[int, tuple[Demand, KeyOrderPlane | FragmentationPlane, int]] = {}
        self._held: Counter[tuple[GroupKey, int]] = Counter()

    def best(self, demand: Demand, avoid: Sequence[int] = ()) -> Fit | None:
        """The best fit in the fleet as it is now, but for hosts in these places of the fleet."""
        known, plane, number = self._latest.get(id(demand), (None, None, 0))
        if known is None or plane is None:
            plane = self._plane(demand.policy)
            if demand not in self._types and len(plane.request_types.demands) >= MOST_TYPES:
                plane = self._emptied(demand.policy)
            number = self._number_of(demand, plane)
            self._latest[id(demand)] = demand, plane, number
        if avoid:
            return plane.best_but(number, [self._number[order] for order in avoid])
        return plane.best(number)

    def adopt(self, plan: CapacityPlan | None, *, anew: bool = False) -> None:
        """Go by another plan; None: by none. What is held counts against its quotas.

        ``anew``: only what comes does.
        """
        self._plan = plan
        if anew:
            self._held.clear()
        classes = plan.classes if plan else {}
        numbers = [classes.get(host.name, -1) for host in self._hosts.states]
        order = np.lexsort((self._ranks(), np.array(numbers, np.int64)))
        self._hosts.reorder(order)
        self._filters.reorder(self._hosts.states, order)
        self._number_hosts()
        names = [host.name for host in self._hosts.states]
        self._quotas = PlanQuotas(plan, names) if plan and names else None
        for (group, host), count in self._held.items():
            self._count(group, host, count)
        for plane in self._planes.values():
            plane.reorder(order)
            if isinstance(plane, FragmentationPlane):
                self._instruct(plane)

    def expect(self) -> None:
        """Ask for the mix again, which is a known one from now on."""
        self._known_mix = True
        plane = self._planes.get(_CAPACITY)
        if isinstance(plane, FragmentationPlane):
            self._expect(plane)

    def rate_ahead(self) -> None:
        """Take in the types of the mix now, all at once, not one by one as they come."""
        plane = self._plane(_CAPACITY)
        expected = dict.fromkeys(each.demand for each in self._mix())
        new = [demand for demand in expected if demand not in self._types][:MOST_TYPES]
        if new:
            first = len(plane.request_types.demands)
            self._types |= {demand: number for number, demand in enumerate(new, start=first)}
            plane.add(new)

    def count(self, demand: Demand, host: HostState, change: int) -> None:
        """Note for this plan and later ones that VMs were placed, or left."""
        group = group_key(demand)
        self._held[group, host.order] += change
        self._count(group, host.order, change)

    def update(self, host: HostState, *, labels_changed: bool) -> None:
        """Score a changed host again; ``labels_changed``: labels of VMs on it changed too."""
        number = self._number[host.order]
        self._hosts.update(number)
        for plane in self._planes.values():
            plane.update(number, labels_changed=labels_changed)

    def refilter(self, host: HostState) -> None:
        """Take in that rules about a host itself have changed."""
        number = self._number[host.order]
        self._filters.renew(number)
        for plane in self._planes.values():
            plane.refilter(number)

    def fragmentation(self) -> tuple[HostFragmentation, ...]:
        """How much of what is free on each host is of no use to the mix."""
        mix = MixRows(self._mix(), self._table)
        hosts = {each.host: each for each in fragmentation(self._hosts, mix)}
        ordered = sorted(self._hosts.states, key=lambda host: host.order)
        return tuple(hosts[host.name] for host in ordered if host.name in hosts)

    def _count(self, group: GroupKey, host: int, change: int) -> None:
        if self._quotas:
            self._quotas.count(self._quotas.group(group), self._number[host], change)

    def _emptied(self, policy: PlacementPolicy) -> KeyOrderPlane | FragmentationPlane:
        """A new plane without any type."""
        del self._planes[policy]
        self._types = {each: n for each, n in self._types.items() if each.policy is not policy}
        self._latest.clear()
        return self._plane(policy)

    def _number_of(self, demand: Demand, plane: KeyOrderPlane | FragmentationPlane) -> int:
        number = self._types.get(demand)
        if number is None:
            number = self._types[demand] = len(plane.request_types.demands)
            plane.add([demand])
        return number

    def _ranks(self) -> Ints:
        """Where each host of the matrix stands in the order that breaks ties."""
        found: Ints = self._rank[[host.order for host in self._hosts.states]]
        return found

    def _number_hosts(self) -> None:
        self._number = {host.order: number for number, host in enumerate(self._hosts.states)}

    def _instruct(self, plane: FragmentationPlane) -> None:
        worth = StateWorth(self._plan.prices, self._table).of if self._plan else None
        plane.go_by(self._quotas, self._ranks(), worth)

    def _plane(self, policy: PlacementPolicy) -> KeyOrderPlane | FragmentationPlane:
        plane = self._planes.get(policy)
        if plane is None:
            plane = self._planes[policy] = self._made(policy)
        return plane

    def _made(self, policy: PlacementPolicy) -> KeyOrderPlane | FragmentationPlane:
        if policy is not _CAPACITY:
            heads = KeyHeads(policy, self._boards)
            return KeyOrderPlane(self._hosts, self._filters, self._table, heads)
        plane = FragmentationPlane(self._hosts, self._filters, self._table)
        self._expect(plane)
        return plane

    def _expect(self, plane: FragmentationPlane) -> None:
        mix = self._mix()
        values = None
        if self._valued:
            values = values_of(self._hosts.states, self._boards, mix, known=self._known_mix)
        plane.expect(MixRows(mix, self._table, values))
        self._instruct(plane)
