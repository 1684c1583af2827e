"""Desktops kept for bookings: by the pool that serves one, and by the others that need the GPUs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from vgpumgr.model.pool import Booking, Desktop, PoolSpec, PoolView


def kept(view: PoolView, groups: Collection[str] = ()) -> int:
    """How many ready desktops are kept for bookings; not for those of ``groups``.

    From ``prewarm_s`` before a booking begins: whoever came then would still be there.
    """
    return sum(
        _open(each, view.desktops)
        for each in due(view.bookings, view.now, view.pool.prewarm_s)
        if each.group not in groups
    )


def redeemable(view: PoolView, groups: Collection[str]) -> str:
    """The id of the booking that a user of these groups comes for; empty: none."""
    for each in due(view.bookings, view.now, 0):
        if each.group in groups and _open(each, view.desktops):
            return each.id
    return ""


def due(bookings: Iterable[Booking], now: float, ahead_s: float) -> list[Booking]:
    """Those that hold now or begin within ``ahead_s``, in order of their ids."""
    held = (each for each in bookings if each.holds(now, now + ahead_s))
    return sorted(held, key=lambda each: each.id)


def served_by(booking: Booking, pools: Iterable[PoolSpec]) -> PoolSpec | None:
    """The pool that serves it: of its profile, entitling its group; highest priority, then name."""
    able = [
        pool
        for pool in pools
        if pool.profile == booking.profile and booking.group in pool.entitlement.groups
    ]
    return min(able, key=lambda pool: (-pool.priority, pool.name), default=None)


def withheld(view: PoolView) -> int:
    """How many desktops the GPUs must still be able to start for the bookings of this pool.

    Other pools find what is left beside them to be startable.
    """
    there = sum(each.free or each.coming for each in view.desktops)
    return max(0, kept(view) - there)


def conflict(booking: Booking, others: Sequence[Booking], capacity: int) -> str:
    """Why ``booking`` cannot be honoured beside the ``others``; empty: it can.

    ``capacity`` is how many desktops of its profile the fleet can run at a time.
    """
    rivals = [
        each
        for each in others
        if each.profile == booking.profile and each.start < booking.end and booking.start < each.end
    ]
    for moment in sorted({booking.start, *(max(each.start, booking.start) for each in rivals)}):
        there = [each for each in rivals if each.holds(moment, moment)]
        taken = sum(each.count for each in there)
        if taken + booking.count > capacity:
            names = "".join(f", {each.id} has {each.count}" for each in there)
            return (
                f"{booking.count} × {booking.profile} do not fit: {capacity} can run at a time"
                f"{names}"
            )
    return ""


def shortages(
    bookings: Iterable[Booking], room: Callable[[Booking], int]
) -> Iterator[tuple[Booking, int]]:
    """How many desktops each of them misses, those that begin first served first.

    ``room`` is how many desktops of its pool there can be at a time when it begins.
    """
    before: list[Booking] = []
    for booking in sorted(bookings, key=lambda each: (each.start, each.id)):
        rivals = [each for each in before if each.profile == booking.profile]
        moments = {booking.start, *(each.start for each in rivals)}
        taken = max(
            sum(each.count for each in rivals if each.holds(moment, moment))
            for moment in moments
            if booking.holds(moment, moment)
        )
        yield booking, min(booking.count, max(0, taken + booking.count - room(booking)))
        before.append(booking)


def _open(booking: Booking, desktops: Iterable[Desktop]) -> int:
    redeemed = sum(
        1 for each in desktops if each.session is not None and each.session.booking == booking.id
    )
    return max(0, booking.count - redeemed)
