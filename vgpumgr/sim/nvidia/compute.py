"""MIG GPU instances and the compute instances in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from vgpumgr.catalog import CiProfile, GiProfile
from vgpumgr.sim.nvidia.refused import Refused, Status


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """``start`` counts the compute slices of its GPU instance."""

    id: int
    profile: CiProfile
    start: int


@dataclass(slots=True, eq=False)
class GpuInstance:
    """A GPU instance: ``start`` on the card's memory grid, compute instances by id."""

    id: int
    profile: GiProfile
    start: int
    compute: dict[int, ComputeInstance] = field(default_factory=dict)

    def compute_profile(self, profile_id: int) -> CiProfile:
        """NOT_SUPPORTED: this kind of GPU instance has no such compute instance."""
        for each in self.profile.compute:
            if each.id == profile_id:
                return each
        raise Refused(Status.NOT_SUPPORTED)

    def remaining(self, profile_id: int) -> int:
        """How many more compute instances of that profile fit."""
        wanted = self.compute_profile(profile_id)
        used = sum(each.profile.slices for each in self.compute.values())
        made = sum(each.profile is wanted for each in self.compute.values())
        return min(
            (self.profile.gpu_slices - used) // wanted.slices,
            wanted.max_instances - made,
            len(self.compute_starts(wanted)),
        )

    def compute_starts(self, wanted: CiProfile) -> list[int]:
        """Where one could be made."""
        taken = {
            each.start + slice_
            for each in self.compute.values()
            for slice_ in range(each.profile.slices)
        }
        return [
            start
            for start in range(self.profile.gpu_slices - wanted.slices + 1)
            if taken.isdisjoint(range(start, start + wanted.slices))
        ]

    def create_compute(self, profile_id: int, start: int | None = None) -> ComputeInstance:
        """INSUFFICIENT_RESOURCES: the slices of the GPU instance are used up."""
        wanted = self.compute_profile(profile_id)
        starts = self.compute_starts(wanted)
        if not self.remaining(profile_id) or (start is not None and start not in starts):
            raise Refused(Status.INSUFFICIENT_RESOURCES)
        number = next(each for each in range(len(self.compute) + 1) if each not in self.compute)
        at = starts[0] if start is None else start
        self.compute[number] = ComputeInstance(number, wanted, at)
        return self.compute[number]

    def destroy_compute(self, number: int) -> None:
        """NOT_FOUND: there is none of that id."""
        if self.compute.pop(number, None) is None:
            raise Refused(Status.NOT_FOUND)
