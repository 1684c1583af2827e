"""A place for one vGPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spot:
    """Where one vGPU would lie: a mask of slots, and the driver's number for the place.

    ``at`` is the placement id, or the first slice of the GPU instance; None where any slots do.
    ``instance`` is the position of an existing GPU instance in the grid, ``makes`` the mask of
    slots that a new one takes. ``broken`` counts the larger places that it leaves unusable.
    """

    slots: int
    at: int | None = None
    instance: int | None = None
    makes: int = 0
    broken: int = 0

    @property
    def make_instance(self) -> bool:
        """Whether a GPU instance has to be made for it."""
        return self.makes > 0
