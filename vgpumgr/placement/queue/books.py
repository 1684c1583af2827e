"""The supply with all that keeps account of it: where VMs start and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.model.queue import Rules, Running
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.amounts import amount_of
from vgpumgr.placement.queue.ground import Ground
from vgpumgr.placement.queue.lanes import Lanes
from vgpumgr.placement.queue.sizes import Sizes
from vgpumgr.placement.queue.tenants import Tenants


class Books:
    """The placer and the ground, tenants and lanes: always in step."""

    def __init__(
        self,
        placer: Placer,
        quotas: Sequence[Quota],
        held: Mapping[str, Amount],
        rules: Rules,
    ) -> None:
        self.placer = placer
        self.ground = Ground(placer.fleet)
        self.sizes = Sizes(placer.fleet)
        self.tenants = Tenants(quotas, held, self.sizes)
        self.lanes = Lanes(rules, self.sizes)
        self.spot: dict[str, Running] = {}

    def take_in(self, each: Running) -> None:
        """One that the placer holds already."""
        amount = amount_of(each.placed)
        self.ground.put(each)
        self.tenants.take(each.vm.tenant, amount)
        self.lanes.take(each.terms, amount)
        if each.terms.spot:
            self.spot[each.vm.name] = each

    def start(self, each: Running) -> None:
        """It takes its place."""
        self.placer.commit(each.placed)
        self.take_in(each)

    def end(self, name: str) -> Running:
        """It gives its place back."""
        each = self.ground.remove(name)
        amount = amount_of(each.placed)
        self.placer.release(each.placed)
        self.tenants.give(each.vm.tenant, amount)
        self.lanes.give(each.terms, amount)
        self.spot.pop(name, None)
        return each
