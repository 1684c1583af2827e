"""The slots of one GPU and what lies on them."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.placement import GpuSupply, InstanceOffer, Offer
from vgpumgr.placement.geometry.masks import lowest, mask_of
from vgpumgr.placement.geometry.mig import (
    Instance,
    capacity,
    instances_of,
    new_instance,
    spot_at,
    spot_in,
)
from vgpumgr.placement.geometry.spot import Spot
from vgpumgr.placement.geometry.starts import Opening, Shapes


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Free slots (those under GPU instances left out), and the GPU instances.

    ``gpu_slices`` is the number of compute slices of the board; 0 where it is not known, and then
    no limit. A value: taking gives another grid, so that a step back is the grid before.
    """

    shapes: Shapes
    free: int
    gpu_slices: int
    instances: tuple[Instance, ...]

    @property
    def free_units(self) -> int:
        """Slots that no vGPU takes, those inside GPU instances included."""
        return self.free.bit_count() + sum(i.free.bit_count() for i in self.instances)

    def spots(self, offer: Offer) -> tuple[Spot, ...]:
        """Where the next vGPU of the offer may lie, best first."""
        if offer.instance is not None:
            existing = spot_in(self.instances, offer)
            return (existing,) if existing else self._new_spots(offer, offer.instance)
        if offer.starts:
            found = self.shapes.openings(offer, self.free, None)
            return tuple(Spot(each.slots, each.at, broken=each.broken) for each in found)
        if self.free.bit_count() < offer.units:
            return ()
        return (Spot(lowest(self.free, offer.units)),)

    def holding(self, offer: Offer, spot: Spot) -> Grid:
        """The grid with one more vGPU at ``spot``."""
        free, instances = self.free & ~(spot.makes or spot.slots), list(self.instances)
        if offer.instance is not None:
            position = spot.instance
            if position is None:
                position = len(instances)
                instances.append(new_instance(offer.instance, spot))
            free = self.free & ~spot.makes
            instances[position] = instances[position].holding(offer, spot.slots)
        return Grid(self.shapes, free, self.gpu_slices, tuple(instances))

    def spot_of(self, offer: Offer, slots: int, at: int | None) -> Spot:
        """The spot that was answered as these slots: in the GPU instance that is there, else in a
        new one. Who lives in an instance may be held again before who made it.
        """
        if offer.instance is None:
            return Spot(slots, at)
        fits = (n for n, each in enumerate(self.instances) if each.offers(offer, slots, at))
        if (there := next(fits, None)) is not None:
            return Spot(slots, at, instance=there)
        taken = next(mask for start, mask in self.shapes.starts(offer) if start == at)
        return Spot(slots, at, makes=taken)

    def releasing(self, offer: Offer, slots: int, at: int | None) -> Grid:
        """The grid without a vGPU that lay on ``slots``, in the GPU instance at ``at`` if any.

        A GPU instance that placement itself made goes with its last vGPU.
        """
        if offer.instance is None:
            return Grid(self.shapes, self.free | slots, self.gpu_slices, self.instances)
        position = next(n for n, each in enumerate(self.instances) if each.holds(offer, slots, at))
        left = self.instances[position].without(slots)
        rest = self.instances[:position], self.instances[position + 1 :]
        if left.ours and not left.vgpus:
            return Grid(self.shapes, self.free | left.slots, self.gpu_slices, rest[0] + rest[1])
        return Grid(self.shapes, self.free, self.gpu_slices, (*rest[0], left, *rest[1]))

    def room(self, offer: Offer) -> int:
        """How many vGPUs of the offer ``spots`` and ``holding`` would take one after the other."""
        if offer.instance is not None:
            return self._room_in_instances(offer, offer.instance)
        if offer.starts:
            most = self.shapes.most(offer, self.free)
            return self._room_by_trying(offer) if most is None else most
        return self.free.bit_count() // offer.units if offer.units else offer.max_instances

    def slices_left(self) -> int | None:
        """Compute slices that no instance has; None where the board's number is not known."""
        if not self.gpu_slices:
            return None
        return self.gpu_slices - sum(i.supply.gpu_slices for i in self.instances)

    def media_holder(self) -> Instance | None:
        """The instance that has the media extensions: there is one per GPU."""
        return next((i for i in self.instances if i.supply.media), None)

    def made(self, profile_id: int) -> int:
        """How many instances of the profile there are."""
        return sum(i.supply.profile_id == profile_id for i in self.instances)

    def openings(self, offer: Offer) -> tuple[Opening, ...]:
        """Free starts where a new instance holds the vGPU."""
        found = self.shapes.openings(offer, self.free, self.slices_left())
        return tuple(each for each in found if capacity(offer, each.slots))

    def new_instances(self, offer: Offer, made: InstanceOffer) -> int:
        """How many more instances the board makes, whatever their places."""
        left = offer.max_instances - self.made(made.profile_id)
        slices = self.slices_left()
        if slices is not None and made.gpu_slices:
            left = min(left, slices // made.gpu_slices)
        if made.media:
            left = min(left, int(self.media_holder() is None))
        return max(0, left)

    def _new_spots(self, offer: Offer, made: InstanceOffer) -> tuple[Spot, ...]:
        if not self.new_instances(offer, made):
            return ()
        return tuple(spot_at(opening, offer) for opening in self.openings(offer))

    def _room_in_instances(self, offer: Offer, made: InstanceOffer) -> int:
        openings = self.openings(offer)
        if self.shapes.most(offer, self.free) is None:
            return self._room_by_trying(offer)
        each = {capacity(offer, opening.slots) for opening in openings}
        if len(each) > 1:
            return self._room_by_trying(offer)
        new = min(self.new_instances(offer, made), len(openings)) * max(each, default=0)
        return sum(i.takes(offer) for i in self.instances) + new

    def _room_by_trying(self, offer: Offer) -> int:
        grid, count = self, 0
        while spots := grid.spots(offer):
            grid, count = grid.holding(offer, spots[0]), count + 1
        return count


def grid_of(supply: GpuSupply, shapes: Shapes) -> Grid:
    """The grid as the supply describes it."""
    return Grid(shapes, mask_of(supply.free_slots), supply.gpu_slices, instances_of(supply))
