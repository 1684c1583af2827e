"""Where GPU instances go: exact search over the memory grid, which has twelve slices at most.

Places are tried, never ordered by a rule of thumb: the driver's own choice is not lowest first,
and an order that works for one set of instances fails for another (mig-parted permutes them).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.layout.profiles import Profile
from vgpumgr.layout.wanted import Want
from vgpumgr.model.gpu import GpuInstance

# Losing an instance that a guest uses is no price to pay: the plan is refused where it must be.
_GUEST = 1_000

Place = tuple[Want, int]
"""A wanted instance and its first slice."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What there is to build on: the profiles, the compute slices, and what must stay."""

    profiles: dict[str, Profile]
    gpu_slices: int
    fixed: tuple[GpuInstance, ...]


def arrange(
    wants: Sequence[Want], there: Sequence[GpuInstance], used: Collection[int], ground: Ground
) -> tuple[Place, ...] | None:
    """A place for every want, or None where they cannot all be had.

    Of all arrangements the one that keeps the most of what is ``there``, an instance ``used`` by
    guests above all, and of those the one that leaves the most room.
    """
    found = list(_arrangements(_hardest_first(wants), (), ground))
    return min(found, key=lambda each: _cost(each, there, used, ground), default=None)


def kept(places: Sequence[Place], instance: GpuInstance) -> bool:
    """Does an arrangement keep this instance as it is?"""
    return any(start == instance.start and want.keeps(instance) for want, start in places)


def _hardest_first(wants: Sequence[Want]) -> list[Want]:
    return sorted(wants, key=lambda w: (w.start is None, -w.profile.size, repr(w)))


def _arrangements(
    wants: Sequence[Want], placed: tuple[Place, ...], ground: Ground
) -> Iterator[tuple[Place, ...]]:
    if not wants:
        yield placed
        return
    want = wants[0]
    for start in _starts(want, placed):
        if _fits(want, start, placed, ground):
            yield from _arrangements(wants[1:], (*placed, (want, start)), ground)


def _starts(want: Want, placed: tuple[Place, ...]) -> Sequence[int]:
    """Equal wants take ascending places, so that no arrangement is seen twice."""
    if want.start is not None:
        return (want.start,)
    floor = placed[-1][1] if placed and placed[-1][0] == want else -1
    return [start for start in want.profile.starts if start > floor]


def _fits(want: Want, start: int, placed: tuple[Place, ...], ground: Ground) -> bool:
    profile = want.profile
    names = [each.profile.name for each, _ in placed] + [each.profile for each in ground.fixed]
    known = [ground.profiles[name] for name in names if name in ground.profiles]
    return (
        start in profile.starts
        and not _mask(start, profile.size) & _taken(placed, ground)
        and sum(each.gpu_slices for each in known) + profile.gpu_slices <= ground.gpu_slices
        and not (profile.media and any(each.media for each in known))
        and names.count(profile.name) < profile.most
    )


def _cost(
    places: tuple[Place, ...],
    there: Sequence[GpuInstance],
    used: Collection[int],
    ground: Ground,
) -> tuple[int, int, list[int]]:
    lost = [each for each in there if not kept(places, each)]
    price = sum(_GUEST if each.start in used else 1 for each in lost)
    return price, -_room(places, ground), [start for _, start in places]


def _room(places: tuple[Place, ...], ground: Ground) -> int:
    """Slices of all placements that could still be had."""
    taken = _taken(places, ground)
    return sum(
        profile.size
        for profile in ground.profiles.values()
        for start in profile.starts
        if not _mask(start, profile.size) & taken
    )


def _taken(placed: Sequence[Place], ground: Ground) -> int:
    taken = 0
    for want, start in placed:
        taken |= _mask(start, want.profile.size)
    for each in ground.fixed:
        taken |= _mask(each.start, each.size)
    return taken


def _mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start
