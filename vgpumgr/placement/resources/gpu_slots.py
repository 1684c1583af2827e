"""Slots of a GPU as bit masks, the starts of profiles on them, and the start a vGPU takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vgpumgr.model.supply import GpuSupply, Offer

# Boards may have a thousand slots, so what is done here goes by runs of slots, not slot by slot.


_NUMBERS = tuple(range(4096))
"""Shared, so that the slots of many VMs cost a reference each."""


def mask_of(slots: Iterable[int]) -> int:
    """The mask of these slots."""
    if isinstance(slots, tuple) and slots and slots == _NUMBERS[slots[0] : slots[-1] + 1]:
        return int((1 << len(slots)) - 1 << slots[0])
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


@lru_cache(maxsize=1 << 14)
def slots_of(mask: int) -> tuple[int, ...]:
    """The slots of a mask, lowest first."""
    found: list[int] = []
    for first, count in _runs(mask):
        found += _numbers(first, count)
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest slots of ``mask``; all of them where it has fewer."""
    taken = 0
    for first, length in _runs(mask):
        part = min(count, length)
        taken |= ((1 << part) - 1) << first
        count -= part
        if not count:
            break
    return taken


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """First slot and length of each run of slots."""
    while mask:
        first = (mask & -mask).bit_length() - 1
        shifted = mask >> first
        length = (shifted & ~(shifted + 1)).bit_length()
        yield first, length
        mask = (shifted >> length) << (first + length)


def _numbers(first: int, count: int) -> Sequence[int]:
    end = first + count
    return _NUMBERS[first:end] if end <= len(_NUMBERS) else range(first, end)


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


# "The most" is judged by what would still fit afterwards, the largest profile first. On an empty
# A100 that puts 1g instances at slice 6, then 4, 5, 0: the order in which the driver itself
# chooses.


_REMEMBERED = 1 << 16


@dataclass(frozen=True, slots=True)
class FreeStart:
    """A start that is free: the driver's number, its slots, the larger starts lost with it."""

    at: int
    slots: int
    broken: int


class Shape:
    """All starts of one size. ``members`` has a bit per start, numbered across all shapes.

    ``weight`` is what makes a shape larger than another: slots, then compute slices.
    """

    __slots__ = ("disjoint", "gpu_slices", "members", "starts", "weight")

    def __init__(self, starts: Sequence[tuple[int, int]], gpu_slices: int) -> None:
        self.starts = starts
        self.gpu_slices = gpu_slices
        self.members = 0
        sizes = sum(mask.bit_count() for _, mask in starts)
        self.disjoint = sizes == _under(starts).bit_count()
        self.weight = max((mask.bit_count() for _, mask in starts), default=0), gpu_slices


class Shapes:
    """The shapes of all profiles of one kind of GPU. What was worked out once is remembered."""

    def __init__(self, offers: tuple[Offer, ...]) -> None:
        self.offers = offers
        self._of: dict[tuple[str, str], Shape] = {}
        self._shapes = self._distinct(offers)
        self._starts = [start for shape in self._shapes for start in shape.starts]
        self._conflicts = [
            sum(1 << n for n, (_, other) in enumerate(self._starts) if mask & other)
            for _, mask in self._starts
        ]
        self._number_members()
        self._opened: dict[int, int] = {}
        self._known: dict[tuple[int, int, int | None], tuple[FreeStart, ...]] = {}

    def starts(self, offer: Offer) -> Sequence[tuple[int, int]]:
        """All starts of the offer as (number, mask)."""
        return self._of[offer.profile, offer.type_id].starts

    def openings(self, offer: Offer, free: int, slices: int | None) -> tuple[FreeStart, ...]:
        """The starts whose slots are all free, best first; ``slices`` None: not limited."""
        shape, opened = self._of[offer.profile, offer.type_id], self.opened(free)
        key = (shape.members, opened, slices)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._ranked(shape, opened, slices)
        return found

    def most(self, offer: Offer, free: int) -> int | None:
        """How many of the offer's starts can be used together; None: only trying tells."""
        shape = self._of[offer.profile, offer.type_id]
        return (self.opened(free) & shape.members).bit_count() if shape.disjoint else None

    def members(self, offer: Offer) -> int:
        """The offer's starts, as bits of ``opened``."""
        return self._of[offer.profile, offer.type_id].members

    def opened(self, free: int) -> int:
        """The starts whose slots are all free, a bit each: all that ``free`` means to vGPUs."""
        found = self._opened.get(free)
        if found is None:
            if len(self._opened) >= _REMEMBERED:
                self._opened.clear()
            starts = enumerate(self._starts)
            found = self._opened[free] = sum(1 << n for n, (_, mask) in starts if not mask & ~free)
        return found

    def _distinct(self, offers: Iterable[Offer]) -> list[Shape]:
        shapes: dict[tuple[object, int], Shape] = {}
        for offer in offers:
            slices = offer.instance.gpu_slices if offer.instance else 0
            # A start without slots is one that nothing is known of.
            starts = tuple((s.at, mask_of(s.slots)) for s in offer.starts if s.slots)
            shape = shapes.setdefault((starts, slices), Shape(starts, slices))
            self._of[offer.profile, offer.type_id] = shape
        return sorted(shapes.values(), key=lambda shape: shape.weight, reverse=True)

    def _number_members(self) -> None:
        first = 0
        for shape in self._shapes:
            count = len(shape.starts)
            shape.members = ((1 << count) - 1) << first
            first += count

    def _ranked(self, shape: Shape, opened: int, slices: int | None) -> tuple[FreeStart, ...]:
        left = None if slices is None else slices - shape.gpu_slices
        larger = sum(s.members for s in self._shapes if s.weight > shape.weight)
        ranked = []
        for number, (at, mask) in enumerate(self._starts):
            if opened & shape.members & 1 << number:
                after = opened & ~self._conflicts[number]
                broken = (opened & larger).bit_count() - (after & larger).bit_count()
                ranked.append((self._loss(after, left), FreeStart(at, mask, broken)))
        ranked.sort(key=lambda pair: (pair[0], pair[1].at))
        return tuple(opening for _, opening in ranked)

    def _loss(self, opened: int, slices: int | None) -> tuple[list[int], list[int]]:
        """Lower is better: what still fits by starts and slices, then by starts alone."""
        counts = [(opened & shape.members).bit_count() for shape in self._shapes]
        fits = [
            count if slices is None or not shape.gpu_slices
            else min(count, slices // shape.gpu_slices)
            for count, shape in zip(counts, self._shapes, strict=True)
        ]  # fmt: skip
        return [-count for count in fits], [-count for count in counts]


class ShapeBook:
    """Shapes shared by all GPUs of a fleet that make the same."""

    def __init__(self) -> None:
        self._none = Shapes(())
        self._known: dict[str, list[Shapes]] = {}

    def of(self, supply: GpuSupply) -> Shapes:
        """The shapes of this GPU's offers; none where all its slots are merely counted."""
        if not any(offer.starts or offer.instance for offer in supply.offers):
            return self._none
        known = self._known.setdefault(supply.model, [])
        for shapes in known:
            if shapes.offers == supply.offers:
                return shapes
        known.append(Shapes(supply.offers))
        return known[-1]


def _under(starts: Iterable[tuple[int, int]]) -> int:
    """All slots under any of the starts."""
    every = 0
    for _, mask in starts:
        every |= mask
    return every
