"""How many more desktops of a pool could start now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.engine.supply import build_fleet
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.holding import held_by_tenants
from vgpumgr.model.placement import Placed
from vgpumgr.model.quota import Amount
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.queue import amount_of
from vgpumgr.placement.startable import startable


class Room:
    """What the fleet has, less what was promised to desktops that hold nothing yet."""

    def __init__(self, view: LedgerView) -> None:
        self._placer = Placer(build_fleet(view), PlacementPolicy.BREADTH_FIRST)
        self._limits = {each.tenant: each for each in view.quotas}
        self._held = held_by_tenants(view.vms, view.allocations, view.gpus) if self._limits else {}

    def promise(self, wanted: Iterable[VmSpec]) -> None:
        """These are to be made, where they fit."""
        for each in wanted:
            placed = self._placer.decide(each, explain=False)
            if isinstance(placed, Placed):
                self._placer.commit(placed)
                self._held[each.tenant] = self._has(each.tenant) + amount_of(placed)

    def startable(self, wanted: VmSpec, most: int) -> int:
        """How many like this one fit beside all that, and under the tenant's quota."""
        found = startable(self._placer, wanted, most)
        return min(found, self._allowed(wanted, found)) if found else 0

    def _allowed(self, wanted: VmSpec, most: int) -> int:
        limit = self._limits.get(wanted.tenant)
        placed = self._placer.decide(wanted, explain=False)
        if limit is None or not isinstance(placed, Placed):
            return most
        one, held = amount_of(placed), self._has(wanted.tenant)
        for count in range(most):
            if limit.exceeded_by(held, one):
                return count
            held += one
        return most

    def _has(self, tenant: str) -> Amount:
        return self._held.get(tenant, Amount())
