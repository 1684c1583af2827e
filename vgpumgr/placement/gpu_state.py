"""A working copy of one GPU, used up as VMs are placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import FreeVf, GpuSupply, Offer, Reason
from vgpumgr.placement.demand import Kind
from vgpumgr.placement.geometry import Grid, ShapeBook, Spot, grid_of
from vgpumgr.placement.offers import matching, whole

Family = tuple[str, str]
"""Board model and series: vGPUs of one VM must agree in both."""

OfferKey = tuple[str, str, int]
"""Profile and type id of an offer, and the number of vGPUs of the VM."""

Verdict = Reason | tuple[Spot, ...]
"""Why an offer is refused, or where the next may lie."""

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Taken:
    """What ``take`` used up, for ``give_back``."""

    offer: Offer
    vf: FreeVf | None
    before: Grid
    known: dict[OfferKey, Verdict]


class GpuState:
    """One GPU: its grid, live instances per profile, vGPUs per size class, VFs taken.

    ``known`` is for whoever judges offers: it holds as long as the GPU does not change.
    """

    __slots__ = (
        "_makes_whole", "_matching", "classes", "free_units", "grid", "host", "known", "live",
        "made", "numa_node", "supply", "used", "vfs_taken", "whole",
    )  # fmt: skip

    def __init__(self, host: str, supply: GpuSupply, shapes: ShapeBook) -> None:
        self.host = host
        self.supply = supply
        self.numa_node = supply.numa_node
        self.grid = grid_of(supply, shapes.of(supply))
        self.free_units = self.grid.free_units
        self.used = len(supply.usages)
        self.whole = any(u.framework is Framework.PASSTHROUGH for u in supply.usages)
        self.vfs_taken = 0
        self.known: dict[OfferKey, Verdict] = {}
        self.live: dict[str, int] = {}
        self.classes: dict[int, int] = {}
        self.made: dict[str, int] = {}
        self._matching: dict[Kind, tuple[Offer, ...]] = {}
        self._makes_whole: bool | None = None
        for usage in supply.usages:
            _add(self.live, usage.profile, 1)
            if usage.framework is not Framework.PASSTHROUGH:
                _add(self.classes, usage.size_class, 1)

    def matching(self, kind: Kind) -> tuple[Offer, ...]:
        """The offers that answer ``kind``, best first; () too where the model is another."""
        found = self._matching.get(kind)
        if found is None:
            right = kind.model is None or kind.model.casefold() == self.supply.model.casefold()
            found = self._matching[kind] = matching(self.supply.offers, kind) if right else ()
        return found

    @property
    def empty(self) -> bool:
        """Nothing lives on it and every slot is free."""
        return not self.used and self.grid.free.bit_count() == self.supply.units

    @property
    def can_go_whole(self) -> bool:
        """It could be given to a VM whole."""
        if not self.empty or self.supply.passthrough_blocked:
            return False
        if self._makes_whole is None:
            self._makes_whole = any(map(whole, self.supply.offers))
        return self._makes_whole

    @property
    def vfs_left(self) -> int:
        """VFs that nothing lives on."""
        return len(self.supply.free_vfs) - self.vfs_taken

    def family(self, offer: Offer) -> Family | None:
        """What the vGPUs of one VM must share; None where nothing is known to be needed."""
        vgpu = offer.framework in (Framework.MDEV, Framework.VFIO_VF)
        return (self.supply.model, offer.series) if vgpu and offer.series else None

    def suits(self, offer: Offer) -> bool:
        """It is cut up already, in the way that the offer needs."""
        if offer.instance is not None:
            return bool(self.grid.instances)
        return offer.size_class in self.classes

    def spots(self, offer: Offer) -> tuple[Spot, ...]:
        """Where the next of ``offer`` may lie, best first. A whole GPU takes what is free."""
        return (Spot(self.grid.free),) if whole(offer) else self.grid.spots(offer)

    def driver_left(self, offer: Offer) -> int | None:
        """What the driver says it would still create; None where it does not say.

        For a MIG-backed type it counts only GPU instances that exist, so it is no limit.
        """
        counted = None if offer.instance else self.supply.available.get(offer.type_id)
        return None if counted is None else counted - self.made.get(offer.type_id, 0)

    def room(self, offer: Offer) -> int:
        """How many more of a vGPU's offer fit, one after the other."""
        left = self.grid.room(offer)
        if offer.instance is None:
            left = min(left, offer.max_instances - self.live.get(offer.profile, 0))
        if offer.needs_vf:
            left = min(left, self.vfs_left)
        driver = self.driver_left(offer)
        return left if driver is None else min(left, driver)

    def take(self, offer: Offer, spot: Spot) -> Taken:
        """Use up one instance of ``offer`` at ``spot``, with the first free VF if it needs one."""
        vf = self.supply.free_vfs[self.vfs_taken] if offer.needs_vf else None
        taken = Taken(offer, vf, self.grid, self.known)
        self._account(offer, 1)
        self._set(self.grid.holding(offer, spot), {})
        self.whole = self.whole or whole(offer)
        return taken

    def give_back(self, taken: Taken) -> None:
        """Undo the latest ``take`` that was not undone yet."""
        self._account(taken.offer, -1)
        self._set(taken.before, taken.known)
        if whole(taken.offer):
            self.whole = False

    def _set(self, grid: Grid, known: dict[OfferKey, Verdict]) -> None:
        self.grid, self.known = grid, known
        self.free_units = grid.free_units

    def _account(self, offer: Offer, change: int) -> None:
        self.used += change
        self.vfs_taken += change * offer.needs_vf
        _add(self.live, offer.profile, change)
        _add(self.made, offer.type_id, change)
        if not whole(offer):
            _add(self.classes, offer.size_class, change)


def _add(counts: dict[_Key, int], key: _Key, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]
