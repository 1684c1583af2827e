"""The memory grid of a card in MIG mode: which GPU instances lie where."""

from __future__ import annotations

from random import Random

from vgpumgr.catalog import GiProfile, MigBoard
from vgpumgr.sim.nvidia.compute import GpuInstance
from vgpumgr.sim.nvidia.refused import Refused, Status

# Slots in the order in which two cards filled them with 1g instances, and the eighth's id that
# each card lacks (counted from the first); with larger profiles the first one gives 2g at 4, 3g
# at 4, as printed in the NVIDIA MIG User Guide. The second order is worked out from its ids.
# Source: an H100 SXM5 capture; H100 PCIe and A100 80GB captures.
_SEEN = (((6, 4, 5, 0, 1, 2, 3, 7), 7), ((2, 0, 1, 3, 4, 5, 6, 7), 3))


class Grid:
    """The GPU instances of one card. ``seed`` makes the card: its order of slots, its ids."""

    def __init__(self, board: MigBoard, seed: int) -> None:
        self.board = board
        self.instances: dict[int, GpuInstance] = {}
        self._order, self._hole = _card(board, seed)

    def profile(self, profile_id: int) -> GiProfile:
        """NOT_SUPPORTED: the board has none of that id."""
        for each in self.board.profiles:
            if each.id == profile_id:
                return each
        raise Refused(Status.NOT_SUPPORTED)

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

    def create(self, profile_id: int, start: int | None = None) -> GpuInstance:
        """Make an instance where asked for, or where this card would.

        INVALID_ARGUMENT: the profile never lies there; INSUFFICIENT_RESOURCES: no room.
        """
        wanted = self.profile(profile_id)
        if start is not None and start not in wanted.starts:
            raise Refused(Status.INVALID_ARGUMENT)
        free = self.free(wanted)
        if not self.remaining(profile_id) or (start is not None and start not in free):
            raise Refused(Status.INSUFFICIENT_RESOURCES)
        at = free[0] if start is None else start
        made = GpuInstance(self._id(wanted, at), wanted, at)
        self.instances[made.id] = made
        return made

    def instance(self, instance_id: int) -> GpuInstance:
        """NOT_FOUND: there is none of that id."""
        if instance_id not in self.instances:
            raise Refused(Status.NOT_FOUND)
        return self.instances[instance_id]

    def destroy(self, instance_id: int) -> None:
        """IN_USE: it has compute instances."""
        if self.instance(instance_id).compute:
            raise Refused(Status.IN_USE)
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
