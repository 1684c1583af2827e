"""Working copy of one GPU, used up as VMs are placed, and board data that alike GPUs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Reason
from vgpumgr.model.supply import FreeVf, GpuSupply, Offer
from vgpumgr.placement.resources.demand import PartKind, matching, whole
from vgpumgr.placement.resources.gpu_slots import ShapeBook, Shapes, Spot, mask_of
from vgpumgr.placement.resources.slot_grid import InstanceSlots, SlotGrid, grid_of

_GRIDS = 4096


class BoardLayout:
    """One make of GPU as it is laid out: its model, its units and what it offers.

    ``number`` tells boards of one fleet apart. ``counted``: its vGPUs may lie on any free slots.
    ``placed``: all of them begin at starts.
    """

    __slots__ = (
        "_grids",
        "_matching",
        "counted",
        "makes_whole",
        "model",
        "number",
        "offers",
        "placed",
        "shapes",
        "units",
    )

    def __init__(self, number: int, supply: GpuSupply, shapes: Shapes) -> None:
        self.number = number
        self.model = supply.model
        self.units = supply.units
        self.offers = supply.offers
        self.shapes = shapes
        self.makes_whole = any(map(whole, supply.offers))
        self.counted = not any(offer.starts or offer.instance for offer in supply.offers)
        shared = [offer for offer in supply.offers if not whole(offer)]
        starts = all(offer.starts and not offer.instance for offer in shared)
        self.placed = bool(shared) and starts
        self._grids: dict[int, SlotGrid] = {}
        self._matching: dict[PartKind, tuple[Offer, ...]] = {}

    def matching(self, kind: PartKind) -> tuple[Offer, ...]:
        """The offers that answer ``kind``, best first; () too where the model is another."""
        found = self._matching.get(kind)
        if found is None:
            found = matching(self.offers, kind) if kind.allows(self.model) else ()
            self._matching[kind] = found
        return found

    def shared(self, grid: SlotGrid) -> SlotGrid:
        """A grid equal to this one, the same object for all GPUs where that is easy to tell."""
        if grid.instances or grid.shapes is not self.shapes:
            return grid
        if len(self._grids) >= _GRIDS:
            self._grids.clear()
        known = self._grids.setdefault(grid.free, grid)
        return known if known.gpu_slices == grid.gpu_slices else grid


class BoardBook:
    """The boards of a fleet."""

    def __init__(self) -> None:
        self._shapes = ShapeBook()
        self._known: dict[tuple[str, int], list[BoardLayout]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[BoardLayout]:
        for known in self._known.values():
            yield from known

    def of(self, supply: GpuSupply) -> BoardLayout:
        """The board of this GPU."""
        known = self._known.setdefault((supply.model, supply.units), [])
        for board in known:
            if board.offers is supply.offers or board.offers == supply.offers:
                return board
        known.append(BoardLayout(self._count, supply, self._shapes.of(supply)))
        self._count += 1
        return known[-1]


Family = tuple[str, str]
"""Board model and series: vGPUs of one VM must agree in both."""

OfferKey = tuple[str, str, int]
"""Profile and type id of an offer, and the number of vGPUs of the VM."""

Verdict = Reason | tuple[Spot, ...]
"""Why an offer is refused, or where the next may lie."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What lay on the GPU before ``take``, for ``give_back``."""

    grid: SlotGrid
    parts: tuple[Offer, ...]
    vfs: tuple[FreeVf, ...]
    known: dict[OfferKey, Verdict] | None
    row: tuple[object, int] | None


class GpuOccupancy:
    """One GPU: its grid, the parts placed on it in this run, and the VFs that are free.

    Its values are replaced, never changed, so that an earlier state can be restored. ``row`` is for
    a table of states: the table, and the row of the GPU as it is now.
    """

    __slots__ = ("_known", "board", "grid", "host", "parts", "row", "supply", "vfs")

    def __init__(self, host: str, supply: GpuSupply, boards: BoardBook) -> None:
        self.host = host
        self.supply = supply
        self.board: BoardLayout = boards.of(supply)
        self.grid = self.board.shared(grid_of(supply, self.board.shapes))
        self.parts: tuple[Offer, ...] = ()
        self.vfs = supply.free_vfs
        self._known: dict[OfferKey, Verdict] | None = None
        self.row: tuple[object, int] | None = None

    def copy(self) -> GpuOccupancy:
        """Another working copy, as this one is now."""
        copy = object.__new__(GpuOccupancy)
        copy.host, copy.supply, copy.board = self.host, self.supply, self.board
        copy.grid, copy.parts, copy.vfs = self.grid, self.parts, self.vfs
        copy._known, copy.row = None, self.row
        return copy

    @property
    def known(self) -> dict[OfferKey, Verdict]:
        """Verdicts by offer that ``judge`` keeps; they hold as long as the GPU does not change."""
        if self._known is None:
            self._known = {}
        return self._known

    @property
    def numa_node(self) -> int | None:
        """The node it is attached to, where that is known."""
        return self.supply.numa_node

    def matching(self, kind: PartKind) -> tuple[Offer, ...]:
        """The offers that answer ``kind``, best first; () too where the model is another."""
        return self.board.matching(kind)

    @property
    def free_units(self) -> int:
        """Slots that no vGPU takes."""
        return self.grid.free_units

    @property
    def used(self) -> int:
        """How many VMs and foreign users the GPU has."""
        return len(self.supply.usages) + len(self.parts)

    @property
    def live(self) -> dict[str, int]:
        """The vGPUs and other uses on the GPU, by profile."""
        held = [usage.profile for usage in self.supply.usages]
        return dict(Counter([*held, *(offer.profile for offer in self.parts)]))

    @property
    def classes(self) -> dict[int, int]:
        """Its vGPUs by size class."""
        return dict(Counter(self._classes()))

    @property
    def whole(self) -> bool:
        """A VM has it as a whole."""
        held = any(u.framework is Framework.PASSTHROUGH for u in self.supply.usages)
        return held or any(map(whole, self.parts))

    @property
    def empty(self) -> bool:
        """Nothing lives on it and every slot is free."""
        return not self.used and self.grid.free.bit_count() == self.supply.units

    @property
    def can_go_whole(self) -> bool:
        """It could be given to a VM whole."""
        return self.board.makes_whole and not self.supply.passthrough_blocked and self.empty

    @property
    def vfs_taken(self) -> int:
        """How many VFs were free in the supply and are not now."""
        return len(self.supply.free_vfs) - len(self.vfs)

    def count(self, profile: str) -> int:
        """How many of the profile live on it."""
        held = sum(usage.profile == profile for usage in self.supply.usages)
        return held + sum(offer.profile == profile for offer in self.parts)

    def made(self, type_id: str) -> int:
        """How many of the type were placed in this run."""
        return sum(offer.type_id == type_id for offer in self.parts)

    def family(self, offer: Offer) -> Family | None:
        """What the vGPUs of one VM must share; None where nothing is known to be needed."""
        vgpu = offer.framework in (Framework.MDEV, Framework.VFIO_VF)
        return (self.supply.model, offer.series) if vgpu and offer.series else None

    def suits(self, offer: Offer) -> bool:
        """It is cut up already, in the way that the offer needs."""
        if offer.instance is not None:
            return bool(self.grid.instances)
        if not self.supply.same_size:
            return self.used > 0
        return any(size_class == offer.size_class for size_class in self._classes())

    def spots(self, offer: Offer) -> tuple[Spot, ...]:
        """Where the next of ``offer`` may lie, best first. A whole GPU takes what is free."""
        return (Spot(self.grid.free),) if whole(offer) else self.grid.spots(offer)

    def driver_left(self, offer: Offer) -> int | None:
        """What the driver says it would still create; None where it does not say.

        For a MIG-backed type it counts only GPU instances that exist, so it is no limit.
        """
        counted = None if offer.instance else self.supply.available.get(offer.type_id)
        return None if counted is None else counted - self.made(offer.type_id)

    def room(self, offer: Offer) -> int:
        """How many more of a vGPU's offer fit, one after the other."""
        left = self.grid.room(offer)
        if offer.instance is None:
            left = min(left, offer.max_instances - self.count(offer.profile))
        if offer.needs_vf:
            left = min(left, len(self.vfs))
        driver = self.driver_left(offer)
        return left if driver is None else min(left, driver)

    def take(self, offer: Offer, spot: Spot) -> Taken:
        """Use up one instance of ``offer`` at ``spot``, with the first free VF if it needs one."""
        before = Taken(self.grid, self.parts, self.vfs, self._known, self.row)
        self._set(self.grid.holding(offer, spot), (*self.parts, offer))
        self.vfs = self.vfs[offer.needs_vf :]
        return before

    def give_back(self, before: Taken) -> None:
        """Undo a ``take``, and all that came after it."""
        self.grid, self.parts, self.vfs = before.grid, before.parts, before.vfs
        self._known, self.row = before.known, before.row

    def hold(self, part: Assignment) -> None:
        """Use up a part of a decision, on the GPU as it was at the decision."""
        slots, at = mask_of(part.slots), part.start
        spot = self.grid.spot_of(part.offer, slots, at)
        self._set(self.grid.holding(part.offer, spot), (*self.parts, part.offer))
        if part.vf in self.vfs:
            at = self.vfs.index(part.vf)
            self.vfs = self.vfs[:at] + self.vfs[at + 1 :]

    def release(self, part: Assignment) -> None:
        """Give back a part that ``hold`` used up at any time before."""
        last = max(n for n, offer in enumerate(self.parts) if _same(offer, part.offer))
        grid = self.grid.releasing(part.offer, mask_of(part.slots), part.start)
        self._set(grid, self.parts[:last] + self.parts[last + 1 :])
        if part.vf is not None:
            free = {*self.vfs, part.vf}
            self.vfs = tuple(each for each in self.supply.free_vfs if each in free)

    def _set(self, grid: SlotGrid, parts: tuple[Offer, ...]) -> None:
        self.grid, self.parts = self.board.shared(grid), parts
        self._known = self.row = None

    def _classes(self) -> Iterator[int]:
        for usage in self.supply.usages:
            if usage.framework is not Framework.PASSTHROUGH:
                yield usage.size_class
        for offer in self.parts:
            if not whole(offer):
                yield offer.size_class


def _same(offer: Offer, other: Offer) -> bool:
    return (offer.profile, offer.type_id) == (other.profile, other.type_id)


_BOARDS = 256
"""Boards of which what their offers say is remembered."""


def state_key(gpu: GpuOccupancy) -> Hashable:
    """Equal for GPUs that take the same parts in the same places, now and later."""
    supply, grid, board = gpu.supply, gpu.grid, gpu.board
    return (
        board.number,
        board.units,
        supply.same_size,
        bool(supply.passthrough_blocked),
        grid.gpu_slices,
        _free(gpu),
        _instances(grid.instances),
        gpu.used > 0,
        gpu.whole,
        frozenset(gpu.classes) if supply.same_size else (),
        tuple(gpu.count(offer.profile) for offer in limited(board)),
        tuple(gpu.driver_left(offer) for offer in board.offers) if supply.available else (),
        min(len(gpu.vfs), _most_more(gpu)),
    )


def _free(gpu: GpuOccupancy) -> Hashable:
    """Of free slots only those matter at which something may begin, and how many there are."""
    free, board = gpu.grid.free, gpu.board
    if board.counted:
        return free.bit_count()
    return (free.bit_count(), board.shapes.opened(free)) if board.placed else free


def _most_more(gpu: GpuOccupancy) -> int:
    """No more VFs than that can come to be taken, whatever is placed."""
    smallest = _smallest(gpu.board)
    return gpu.free_units // smallest if smallest else 0


@lru_cache(maxsize=_BOARDS)
def _smallest(board: BoardLayout) -> int:
    """Units of the smallest that takes a VF; 0 where nothing does."""
    return min((max(1, o.units) for o in board.offers if o.needs_vf), default=0)


@lru_cache(maxsize=_BOARDS)
def limited(board: BoardLayout) -> tuple[Offer, ...]:
    """Offers of which a GPU holds fewer than would have a place on it."""
    return tuple(each for each in board.offers if not each.instance and _limits(board, each))


def _limits(board: BoardLayout, offer: Offer) -> bool:
    places = len(offer.starts) if offer.starts else board.units // max(1, offer.units)
    return not whole(offer) and offer.max_instances < places


def _instances(instances: tuple[InstanceSlots, ...]) -> Hashable:
    """The order in which the driver fills them matters while one of them has room."""
    seen = [
        (
            each.supply.profile_id, each.supply.start, each.slots, each.free, each.vgpus,
            each.size_class, bool(each.supply.blocked), each.supply.media, each.ours,
        )
        for each in instances
    ]  # fmt: skip
    return tuple(seen if any(each.free for each in instances) else sorted(seen))
