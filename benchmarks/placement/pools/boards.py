"""The boards, from the catalogue, as the product's own rules see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.placement.mixed_fleet import a40, a100, l40s
from vgpumgr.model.supply import GpuSupply, Offer
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.resources.demand import demand_of
from vgpumgr.placement.resources.gpu_slots import mask_of
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy
from vgpumgr.placement.tables.gpu_states import Part
from vgpumgr.placement.tables.state_space import StateSpace, state_space

MIG = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
GIBS = (2, 4, 8, 16, 24, 48)
VDI = tuple(f"A40-{gib}Q" for gib in GIBS)
MIXED = tuple(f"L40S-{gib}Q" for gib in GIBS)
MIG_MIXES = {
    "uniform": (1, 1, 1, 1, 1, 1),
    "skew-small": (40, 10, 25, 13, 7, 5),
    "skew-big": (8, 7, 15, 25, 20, 25),
    "bimodal": (38, 4, 8, 8, 4, 38),
    # Never used to choose anything: Dirichlet draws of numpy's default_rng(7), in per cent.
    "held-out-1": (10, 15, 8, 13, 3, 50),
    "held-out-2": (1, 62, 13, 7, 12, 7),
    "held-out-3": (11, 13, 24, 3, 40, 9),
    "held-out-4": (10, 26, 2, 2, 36, 23),
}
VDI_MIXES = {
    "office": (50, 30, 12, 5, 2, 1),
    "design": (15, 25, 30, 15, 10, 5),
    "ai": (10, 10, 20, 20, 20, 20),
}


@dataclass(frozen=True, slots=True)
class Board:
    """A board with the profiles that are asked for.

    ``sizes`` are by profile, in the largest unit that counts them: memory slices, or 2 GiB.
    ``mixes`` have weights by profile.
    """

    supply: GpuSupply
    profiles: tuple[str, ...]
    sizes: NDArray[np.int64]
    mixes: Mapping[str, tuple[int, ...]]

    def shares(self, mix: str) -> NDArray[np.float64]:
        """What of all requests each profile is."""
        weights = np.array(self.mixes[mix], np.float64)
        return np.asarray(weights / weights.sum())

    @property
    def whole(self) -> int:
        """The size of a GPU."""
        return int(self.sizes.max())


@dataclass(frozen=True, slots=True)
class TableBoard(Board):
    """One whose states are few enough to be listed."""

    space: StateSpace


Kind = Callable[[], Board]
TableKind = Callable[[], TableBoard]


@cache
def mig_board() -> TableBoard:
    """A100 of 80 GB: 8 memory slices, 7 compute slices."""
    return _listed(a100(), MIG, MIG_MIXES)


@cache
def vdi_board() -> TableBoard:
    """A40 of 48 GB under the same-size rule."""
    return _listed(a40(), VDI, VDI_MIXES)


@cache
def mixed_board() -> Board:
    """L40S of 48 GB in mixed-size mode, each type at its placement ids."""
    return Board(l40s(), MIXED, np.array(GIBS) // GIBS[0], VDI_MIXES)


def offers_of(board: Board) -> list[Offer]:
    """By profile."""
    return [next(o for o in board.supply.offers if o.profile == p) for p in board.profiles]


@cache
def starts_of(offer: Offer) -> list[int]:
    """Where it may begin, in the driver's order: masks of the slots it then takes."""
    return [mask_of(start.slots) for start in offer.starts]


def vm(profile: str, name: str = "vm") -> VmSpec:
    """A VM that wants one such GPU part and nothing else."""
    part = GpuRequest(profile=profile)
    return VmSpec(name=name, vcpus=0, memory_mib=0, gpus=(part,), numa=NumaPolicy.NONE)


def _listed(
    supply: GpuSupply, profiles: Sequence[str], mixes: Mapping[str, tuple[int, ...]]
) -> TableBoard:
    space = state_space(GpuOccupancy("", supply, BoardBook()), [_part(each) for each in profiles])
    assert space is not None
    free = space.free
    taken = np.array([free[0] - free[ways[0].after] for ways in space.takes[0]])
    return TableBoard(supply, tuple(profiles), taken // np.gcd.reduce(taken), mixes, space)


def _part(profile: str) -> Part:
    demand = demand_of(vm(profile), PlacementPolicy.DEPTH_FIRST, founding=False)
    return Part(demand.kinds[0], demand)
