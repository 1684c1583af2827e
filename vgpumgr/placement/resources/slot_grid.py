"""The slot grid of one GPU: free slots and the MIG GPU instances on them, immutable."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.supply import GpuSupply, InstanceOffer, InstanceSupply, Offer
from vgpumgr.placement.resources.gpu_slots import FreeStart, Shapes, Spot, lowest, mask_of


@dataclass(frozen=True, slots=True)
class InstanceSlots:
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

    def holding(self, offer: Offer, slots: int) -> InstanceSlots:
        """The instance with one more vGPU in it."""
        return InstanceSlots(
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

    def without(self, slots: int) -> InstanceSlots:
        """The instance with one vGPU less in it."""
        left = self.vgpus - 1
        size_class = self.size_class if left else self.supply.size_class
        return InstanceSlots(self.supply, self.slots, self.free | slots, left, size_class)


def instances_of(supply: GpuSupply) -> tuple[InstanceSlots, ...]:
    """The instances in the order in which the driver fills them: lowest id first, then planned."""
    made = sorted((i for i in supply.instances if i.id is not None), key=lambda i: i.id or 0)
    planned = [instance for instance in supply.instances if instance.id is None]
    return tuple(
        InstanceSlots(each, mask_of(each.slots), mask_of(each.free), each.vgpus, each.size_class)
        for each in (*made, *planned)
    )


def spot_in(instances: tuple[InstanceSlots, ...], offer: Offer) -> Spot | None:
    """The instance that the driver would choose: the lowest id of the profile with room.

    Source: NVIDIA open-gpu-kernel-modules 595.45.04, kernel_vgpu_mgr.c.
    """
    for position, instance in enumerate(instances):
        if instance.takes(offer):
            slots = _share(offer, instance.free)
            return Spot(slots, instance.supply.start, instance=position)
    return None


def spot_at(opening: FreeStart, offer: Offer) -> Spot:
    """A vGPU in a new instance at ``opening``."""
    slots = _share(offer, opening.slots)
    return Spot(slots, opening.at, makes=opening.slots, broken=opening.broken)


def new_instance(made: InstanceOffer, spot: Spot) -> InstanceSlots:
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
    return InstanceSlots(supply, spot.makes, spot.makes, 0, 0)


def capacity(offer: Offer, slots: int) -> int:
    """How many vGPUs of the offer a new instance over these slots takes."""
    return min(_most(offer), _shares(offer, slots))


def _most(offer: Offer) -> int:
    """vGPUs in one instance. A single one has all of it: no other vGPU could use what it leaves."""
    made = offer.instance
    return made.per_instance if made and made.per_instance > 1 and offer.units else 1


def _share(offer: Offer, free: int) -> int:
    return free if _most(offer) == 1 else lowest(free, offer.units)


def _shares(offer: Offer, free: int) -> int:
    return int(free > 0) if _most(offer) == 1 else free.bit_count() // offer.units


@dataclass(frozen=True, slots=True, eq=False)
class SlotGrid:
    """Free slots (those under GPU instances left out), and the GPU instances.

    ``gpu_slices`` is the number of compute slices of the board; 0 where it is not known, and then
    no limit. A value: taking gives another grid, so that a step back is the grid before.
    """

    shapes: Shapes
    free: int
    gpu_slices: int
    instances: tuple[InstanceSlots, ...]

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

    def holding(self, offer: Offer, spot: Spot) -> SlotGrid:
        """The grid with one more vGPU at ``spot``."""
        free, instances = self.free & ~(spot.makes or spot.slots), list(self.instances)
        if offer.instance is not None:
            position = spot.instance
            if position is None:
                position = len(instances)
                instances.append(new_instance(offer.instance, spot))
            free = self.free & ~spot.makes
            instances[position] = instances[position].holding(offer, spot.slots)
        return SlotGrid(self.shapes, free, self.gpu_slices, tuple(instances))

    def spot_of(self, offer: Offer, slots: int, at: int | None) -> Spot:
        """The spot of a decision: in the GPU instance that is there, else in a new one.

        A VM that lives in an instance may be held again before the VM that made it.
        """
        if offer.instance is None:
            return Spot(slots, at)
        fits = (n for n, each in enumerate(self.instances) if each.offers(offer, slots, at))
        if (there := next(fits, None)) is not None:
            return Spot(slots, at, instance=there)
        taken = next(mask for start, mask in self.shapes.starts(offer) if start == at)
        return Spot(slots, at, makes=taken)

    def releasing(self, offer: Offer, slots: int, at: int | None) -> SlotGrid:
        """The grid without a vGPU that lay on ``slots``, in the GPU instance at ``at`` if any.

        A GPU instance that placement itself made goes with its last vGPU.
        """
        if offer.instance is None:
            return SlotGrid(self.shapes, self.free | slots, self.gpu_slices, self.instances)
        position = next(n for n, each in enumerate(self.instances) if each.holds(offer, slots, at))
        left = self.instances[position].without(slots)
        rest = self.instances[:position], self.instances[position + 1 :]
        if left.ours and not left.vgpus:
            return SlotGrid(self.shapes, self.free | left.slots, self.gpu_slices, rest[0] + rest[1])
        return SlotGrid(self.shapes, self.free, self.gpu_slices, (*rest[0], left, *rest[1]))

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

    def media_holder(self) -> InstanceSlots | None:
        """The instance that has the media extensions: there is one per GPU."""
        return next((i for i in self.instances if i.supply.media), None)

    def made(self, profile_id: int) -> int:
        """How many instances of the profile there are."""
        return sum(i.supply.profile_id == profile_id for i in self.instances)

    def openings(self, offer: Offer) -> tuple[FreeStart, ...]:
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


def grid_of(supply: GpuSupply, shapes: Shapes) -> SlotGrid:
    """The grid as the supply describes it."""
    return SlotGrid(shapes, mask_of(supply.free_slots), supply.gpu_slices, instances_of(supply))
