"""MIG of one GPU: its mode, the memory grid with the GPU instances, and their compute instances.

The pending mode outlives a power cut.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from random import Random

from vgpumgr import catalog
from vgpumgr.catalog import Board, CiProfile, GiProfile, MigBoard
from vgpumgr.sim.nvidia.rm_status import RmRefusal, RmStatus


@dataclass(frozen=True, slots=True)
class SimComputeInstance:
    """``start`` counts the compute slices of its GPU instance."""

    id: int
    profile: CiProfile
    start: int


@dataclass(slots=True, eq=False)
class SimGpuInstance:
    """A GPU instance: ``start`` on the card's memory grid, compute instances by id."""

    id: int
    profile: GiProfile
    start: int
    compute: dict[int, SimComputeInstance] = field(default_factory=dict)

    def compute_profile(self, profile_id: int) -> CiProfile:
        """NOT_SUPPORTED: this kind of GPU instance has no such compute instance."""
        for each in self.profile.compute:
            if each.id == profile_id:
                return each
        raise RmRefusal(RmStatus.NOT_SUPPORTED)

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

    def create_compute(self, profile_id: int, start: int | None = None) -> SimComputeInstance:
        """INSUFFICIENT_RESOURCES: the slices of the GPU instance are used up."""
        wanted = self.compute_profile(profile_id)
        starts = self.compute_starts(wanted)
        if not self.remaining(profile_id) or (start is not None and start not in starts):
            raise RmRefusal(RmStatus.INSUFFICIENT_RESOURCES)
        number = next(each for each in range(len(self.compute) + 1) if each not in self.compute)
        at = starts[0] if start is None else start
        self.compute[number] = SimComputeInstance(number, wanted, at)
        return self.compute[number]

    def destroy_compute(self, number: int) -> None:
        """NOT_FOUND: there is none of that id."""
        if self.compute.pop(number, None) is None:
            raise RmRefusal(RmStatus.NOT_FOUND)


# Slots in the order in which two cards filled them with 1g instances, and the eighth's id that
# each card lacks (counted from the first); with larger profiles the first one gives 2g at 4, 3g
# at 4, as printed in the NVIDIA MIG User Guide. The second order is worked out from its ids.
# Source: an H100 SXM5 capture; H100 PCIe and A100 80GB captures.
_SEEN = (((6, 4, 5, 0, 1, 2, 3, 7), 7), ((2, 0, 1, 3, 4, 5, 6, 7), 3))


class MemoryGrid:
    """The GPU instances of one card. ``seed`` makes the card: its order of slots, its ids."""

    def __init__(self, board: MigBoard, seed: int) -> None:
        self.board = board
        self.instances: dict[int, SimGpuInstance] = {}
        self._order, self._hole = _card(board, seed)

    def profile(self, profile_id: int) -> GiProfile:
        """NOT_SUPPORTED: the board has none of that id."""
        for each in self.board.profiles:
            if each.id == profile_id:
                return each
        raise RmRefusal(RmStatus.NOT_SUPPORTED)

    def remaining(self, profile_id: int) -> int:
        """How many more instances of that profile could be made one after the other."""
        wanted = self.profile(profile_id)
        there = [each.profile for each in self.instances.values()]
        if not _engines_left(wanted, there):
            return 0
        slices = self.board.gpu_slices - sum(each.gpu_slices for each in there)
        return max(
            0,
            min(
                slices // wanted.gpu_slices,
                wanted.max_instances - sum(each is wanted for each in there),
                len(self.free(wanted)),
            ),
        )

    def free(self, wanted: GiProfile) -> list[int]:
        """The starts that nothing lies on, in the order in which this card chooses."""
        taken = {
            each.start + slot
            for each in self.instances.values()
            for slot in range(each.profile.size)
        }
        free = [
            start for start in wanted.starts if taken.isdisjoint(range(start, start + wanted.size))
        ]
        return sorted(free, key=self._order.index)

    def create(self, profile_id: int, start: int | None = None) -> SimGpuInstance:
        """Make an instance where asked for, or where this card would.

        INVALID_ARGUMENT: the profile never lies there; INSUFFICIENT_RESOURCES: no room.
        """
        wanted = self.profile(profile_id)
        if start is not None and start not in wanted.starts:
            raise RmRefusal(RmStatus.INVALID_ARGUMENT)
        free = self.free(wanted)
        if not self.remaining(profile_id) or (start is not None and start not in free):
            raise RmRefusal(RmStatus.INSUFFICIENT_RESOURCES)
        at = free[0] if start is None else start
        made = SimGpuInstance(self._id(wanted, at), wanted, at)
        self.instances[made.id] = made
        return made

    def instance(self, instance_id: int) -> SimGpuInstance:
        """NOT_FOUND: there is none of that id."""
        if instance_id not in self.instances:
            raise RmRefusal(RmStatus.NOT_FOUND)
        return self.instances[instance_id]

    def destroy(self, instance_id: int) -> None:
        """IN_USE: it has compute instances."""
        if self.instance(instance_id).compute:
            raise RmRefusal(RmStatus.IN_USE)
        del self.instances[instance_id]

    def _id(self, wanted: GiProfile, start: int) -> int:
        """The id follows from the span: 0 the whole, 1-2 halves, 3-6 quarters, 7-14 eighths.

        One of the eighths does not exist on a card. Source: kmigmgr_ga100.c of the open kernel
        modules, captures of four cards.
        """
        parts = self.board.grid // wanted.size
        past_hole = parts == 8 and start >= self._hole
        return parts - 1 + start // wanted.size + past_hole


def _card(board: MigBoard, seed: int) -> tuple[tuple[int, ...], int]:
    """Order of slots and missing eighth: one that was seen, or another, never lowest first."""
    kind = seed % (len(_SEEN) + 1)
    if board.grid == 8 and kind < len(_SEEN):
        return _SEEN[kind]
    chance = Random(seed)  # noqa: S311 - a card's habit, not a secret
    starts = sorted({start for each in board.profiles for start in each.starts})
    order = list(starts)
    while order[0] == 0:
        chance.shuffle(order)
    rest = [slot for slot in range(board.grid) if slot not in starts]
    return (*order, *rest), chance.randint(1, 7)


def _engines_left(wanted: GiProfile, there: list[GiProfile]) -> bool:
    """One instance with media extensions per GPU; ``+me.all`` leaves the others no engine at all.

    Source: NVIDIA MIG User Guide.
    """
    if wanted.media and any(each.media for each in there):
        return False
    if _takes_all(wanted):
        return all(_without_media(each) for each in there)
    return _without_media(wanted) or not any(_takes_all(each) for each in there)


def _takes_all(profile: GiProfile) -> bool:
    return profile.name.endswith("+me.all")


def _without_media(profile: GiProfile) -> bool:
    return profile.name.endswith("-me")


class MigMode:
    """``grid`` is None on a board without MIG. ``key`` is where ``durable`` keeps the mode.

    That the mode outlives a reboot was seen on an RTX PRO 6000; Hopper is taken to do the same.
    """

    def __init__(
        self,
        board: Board,
        *,
        seed: int,
        durable: MutableMapping[str, str],
        key: str,
    ) -> None:
        known = catalog.mig(board)
        self.grid = None if known is None else MemoryGrid(known, seed)
        self._needs_reset = board.arch == "ampere"
        self._durable = durable
        self._key = key
        self.enabled = self.pending

    @property
    def pending(self) -> bool:
        """The mode after the next reset or boot."""
        return self.grid is not None and self._durable.get(self._key) == "1"

    def active_grid(self) -> MemoryGrid:
        """NOT_SUPPORTED: the board has no MIG, or it is off."""
        if self.grid is None or not self.enabled:
            raise RmRefusal(RmStatus.NOT_SUPPORTED)
        return self.grid

    def set(self, wanted: bool, *, vfs_on: bool, idle: bool) -> RmStatus | None:
        """The activation status: None when the mode is set now, else why it is pending.

        IN_USE, and nothing changed, while VFs are on or instances are left. A GPU that is not idle
        leaves the mode pending; Ampere needs a reset, which the driver does itself when idle.
        """
        if self.grid is None:
            raise RmRefusal(RmStatus.NOT_SUPPORTED)
        if wanted != self.enabled and (vfs_on or self.grid.instances):
            raise RmRefusal(RmStatus.IN_USE)
        self._durable[self._key] = "1" if wanted else "0"
        if wanted == self.enabled:
            return None
        if not idle:
            return RmStatus.RESET_REQUIRED if self._needs_reset else RmStatus.IN_USE
        self.settle()
        return None

    def settle(self) -> None:
        """A reset: the pending mode takes effect, every instance is gone."""
        self.clear()
        self.enabled = self.pending

    def clear(self) -> None:
        """Every instance is gone."""
        if self.grid is not None:
            self.grid.instances.clear()
