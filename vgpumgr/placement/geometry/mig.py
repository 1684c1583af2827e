"""MIG GPU instances as values, and where a MIG-backed vGPU goes among them."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.placement import GpuSupply, InstanceOffer, InstanceSupply, Offer
from vgpumgr.placement.geometry.masks import lowest, mask_of
from vgpumgr.placement.geometry.spot import Spot
from vgpumgr.placement.geometry.starts import Opening


@dataclass(frozen=True, slots=True)
class Instance:
    """One GPU instance: its supply, and what is in it now (masks of slots)."""

    supply: InstanceSupply
    slots: int
    free: int
    vgpus: int
    size_class: int

    def takes(self, offer: Offer) -> int:
        """How many more vGPUs of the offer it takes."""
        made = offer.instance
        if made is None or made.profile_id != self.supply.profile_id or self.supply.blocked:
            return 0
        if self.vgpus and self.size_class != offer.size_class:
            return 0
        return max(0, min(_most(offer) - self.vgpus, _shares(offer, self.free)))

    def holding(self, offer: Offer, slots: int) -> Instance:
        """The instance with one more vGPU in it."""
        return Instance(
            self.supply, self.slots, self.free & ~slots, self.vgpus + 1, offer.size_class
        )

    @property
    def ours(self) -> bool:
        """Placement made it: the supply knows nothing of it."""
        return not self.supply.slots

    def offers(self, offer: Offer, slots: int, at: int | None) -> bool:
        """Whether it begins at ``at`` and has these slots free for a vGPU of the offer."""
        return self._at(offer, at) and not slots & ~self.free

    def holds(self, offer: Offer, slots: int, at: int | None) -> bool:
        """Whether it begins at ``at`` and a vGPU of the offer can be what has these slots."""
        return self._at(offer, at) and not slots & (self.free | ~self.slots)

    def _at(self, offer: Offer, at: int | None) -> bool:
        made = offer.instance
        alike = made is not None and made.profile_id == self.supply.profile_id
        return alike and self.supply.start == at

    def without(self, slots: int) -> Instance:
        """The instance with one vGPU less in it."""
        left = self.vgpus - 1
        size_class = self.size_class if left else self.supply.size_class
        return Instance(self.supply, self.slots, self.free | slots, left, size_class)


def instances_of(supply: GpuSupply) -> tuple[Instance, ...]:
    """The instances in the order in which the driver fills them: lowest id first, then planned."""
    made = sorted((i for i in supply.instances if i.id is not None), key=lambda i: i.id or 0)
    planned = [instance for instance in supply.instances if instance.id is None]
    return tuple(
        Instance(each, mask_of(each.slots), mask_of(each.free), each.vgpus, each.size_class)
        for each in (*made, *planned)
    )


def spot_in(instances: tuple[Instance, ...], offer: Offer) -> Spot | None:
    """The instance that the driver would choose: the lowest id of the profile with room.

    Source: NVIDIA open-gpu-kernel-modules 595.45.04, kernel_vgpu_mgr.c.
    """
    for position, instance in enumerate(instances):
        if instance.takes(offer):
            slots = _share(offer, instance.free)
            return Spot(slots, instance.supply.start, instance=position)
    return None


def spot_at(opening: Opening, offer: Offer) -> Spot:
    """A vGPU in a new instance at ``opening``."""
    slots = _share(offer, opening.slots)
    return Spot(slots, opening.at, makes=opening.slots, broken=opening.broken)


def new_instance(made: InstanceOffer, spot: Spot) -> Instance:
    """The instance that ``spot`` makes, still empty."""
    supply = InstanceSupply(
        profile=made.profile,
        profile_id=made.profile_id,
        start=spot.at or 0,
        size=made.size,
        gpu_slices=made.gpu_slices,
        slots=(),
        free=(),
        media=made.media,
    )
    return Instance(supply, spot.makes, spot.makes, 0, 0)


def capacity(offer: Offer, slots: int) -> int:
    """How many vGPUs of the offer a new instance over these slots takes."""
    return min(_most(offer), _shares(offer, slots))


def _most(offer: Offer) -> int:
    """vGPUs in one instance. One alone has all of it: nobody else could use what it leaves."""
    made = offer.instance
    return made.per_instance if made and made.per_instance > 1 and offer.units else 1


def _share(offer: Offer, free: int) -> int:
    return free if _most(offer) == 1 else lowest(free, offer.units)


def _shares(offer: Offer, free: int) -> int:
    return int(free > 0) if _most(offer) == 1 else free.bit_count() // offer.units
