"""Seats in the place of a VM's own GPU parts, which it releases before it takes the new ones. Pure.

What is released and what is taken stay the VM's until it runs again: no other VM gets either.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.engine.inventory.fleet_without import fleet_without
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.placement_limits import within_limits
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, GpuSupply
from vgpumgr.model.vm import VmSpec

SAID = "its own GPU parts are released first"
_CLOSED = "another VM changes its parts there at the same time"


@dataclass(slots=True)
class OwnPlaces:
    """Seats of one wave, decided one after the other. VMs in ``gone`` (ids) have left their seats
    by then, and ``taken`` is taken.
    """

    view: LedgerView
    place: PlaceFunction
    gone: Collection[str]
    taken: Sequence[Placed]
    _closed: set[str] = field(default_factory=set)

    def decide(self, vm_id: str, spec: VmSpec) -> Placed | None:
        """A seat that is free once this VM has released what it holds; None where there is none,
        or only one with a device that it has now, and for GPUs that an NVSwitch partition joins.
        """
        own = [each for each in self.view.allocations if each.vm_id == vm_id]
        if any(each.partition is not None for each in own):
            return None
        devices = {each.device for each in own}
        fleet = fleet_without(self.view, {*self.gone, vm_id})
        fleet = _less(fleet, self._closed, devices)
        [found] = self.place(fleet, [spec], taken=self.taken)
        [found] = within_limits(self.view, [found])
        if not isinstance(found, Placed) or any(p.device in devices for p in _whole(found)):
            return None
        self._closed |= {each.gpu for each in own} | {each.gpu for each in found.assignments}
        return found


def _whole(placed: Placed) -> list[Assignment]:
    """Parts that are a whole GPU: their device is the GPU's."""
    return [p for p in placed.assignments if p.offer.framework is Framework.PASSTHROUGH]


def _less(fleet: Fleet, closed: Collection[str], functions: Collection[str]) -> Fleet:
    """The supply without these GPUs (our ids) and virtual functions."""

    def less(gpu: GpuSupply) -> GpuSupply:
        free = tuple(vf for vf in gpu.free_vfs if vf.address not in functions)
        blocked = gpu.blocked or (_CLOSED if gpu.id in closed else "")
        return replace(gpu, free_vfs=free, blocked=blocked)

    hosts = (replace(host, gpus=tuple(map(less, host.gpus))) for host in fleet.hosts)
    return Fleet(hosts=tuple(hosts))
