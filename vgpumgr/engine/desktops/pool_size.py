"""How many desktops a pool should have: spares, schedules, and room kept for bookings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.engine.desktops.desktop_actions import ActionSheet, given_up, suspect
from vgpumgr.engine.desktops.desktop_actions import due as desktop_actions_due
from vgpumgr.model.desktop import Booking, Desktop, DesktopState, DesktopVerb, PoolView
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.holiday_calendar import NO_HOLIDAYS, Holidays
from vgpumgr.model.pool import PoolSpec, ScaleIn, Size
from vgpumgr.model.pool_schedule import holds_at
from vgpumgr.model.supply import Fleet, GpuSupply


def size_at(pool: PoolSpec, now: float, holidays: Holidays = NO_HOLIDAYS) -> Size:
    """The declared size at ``now``, and already the size at the time when a desktop created now is
    warm.

    Users come on the minute: a pool that grows only when its hours begin is late.
    """
    here = _declared(pool, now, holidays)
    soon = _declared(pool, now + pool.prewarm_s, holidays)
    return Size(min=max(here.min, soon.min), spare=max(here.spare, soon.spare), max=pool.size.max)


def _declared(pool: PoolSpec, now: float, holidays: Holidays) -> Size:
    if not pool.schedules:
        return pool.size
    for each in pool.schedules:
        if holds_at(each, now, pool.zone, holidays):
            return Size(min=each.min, spare=each.spare, max=pool.size.max)
    return pool.size


_SHOWN = 8


def unmakeable(pool: PoolSpec, fleet: Fleet) -> str:
    """Why no GPU of the fleet can ever make the pool's profile; empty: one can.

    What a layout keeps a GPU from making it could make; parts by size are not judged.
    """
    for part in pool.desktop.gpus:
        models = {each.casefold() for each in part.any_of}
        able = [
            gpu
            for host in fleet.hosts
            for gpu in host.gpus
            if _makes(gpu, part.profile) and (not models or gpu.model.casefold() in models)
        ]
        if part.profile and not able:
            return f"no GPU of the fleet provides {part.profile}{_could(part.profile)}"
    return ""


def _makes(gpu: GpuSupply, profile: str) -> bool:
    offered = any(profile in (offer.profile, *offer.names) for offer in gpu.offers)
    return offered or profile in gpu.could


def _could(profile: str) -> str:
    """``; T4 could``, by the catalogue."""
    boards = sorted(_boards(profile))
    if not boards:
        return ""
    more = f" and {len(boards) - _SHOWN} more" if len(boards) > _SHOWN else ""
    return f"; {', '.join(boards[:_SHOWN])}{more} could"


def _boards(profile: str) -> Iterator[str]:
    if vf := catalog.parse_vf_profile(profile):
        yield vf[0]
    for board in catalog.boards():
        mig = catalog.mig(board)
        instances = mig.profiles if mig is not None else ()
        names = {name for each in instances for name in (each.name, *each.earlier)}
        names |= {each.profile for each in board.types}
        if profile in names or profile == PASSTHROUGH_PROFILE:
            yield board.key


def kept(view: PoolView, groups: Collection[str] = ()) -> int:
    """The number of ready desktops kept for bookings other than those of ``groups``.

    They are kept from ``prewarm_s`` before a booking begins: a user that came then would still be
    there.
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
    """Bookings that hold now or begin within ``ahead_s``, in order of their ids."""
    held = (each for each in bookings if each.holds(now, now + ahead_s))
    return sorted(held, key=lambda each: each.id)


def serving_pool(booking: Booking, pools: Iterable[PoolSpec]) -> PoolSpec | None:
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
    """The number of desktops that each booking misses, the earliest begin served first.

    ``room`` gives the number of desktops of a booking's pool that fit at a time when it begins.
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


@dataclass(frozen=True, slots=True)
class DesktopDemand:
    """How many desktops there are to count on, how many there should be, and of these idle."""

    have: int
    wanted: int
    idle: int
    beyond: int
    """How many more would be wanted if the maximum allowed it."""


def need(sheet: ActionSheet) -> DesktopDemand:
    """The desktops that users, spares, bookings and their own load need; for users that will
    probably come, only as many as the maximum allows.
    """
    pool, view = sheet.view.pool, sheet.view
    counted = [each for each in view.desktops if _counts(sheet, each)]
    have = len(counted)
    if view.closing:
        return DesktopDemand(have=have, wanted=0, idle=0, beyond=0)
    used = sum(each.used or _given(sheet, each) for each in counted)
    size = size_at(pool, view.now, view.holidays)
    taken = used + sheet.unmet + kept(view)
    idle = max(size.spare, min(view.expected, size.max - taken)) + kept(view)
    by_load = view.load.wanted(have) if view.load is not None else 0
    asked = max(size.min, used + sheet.unmet + idle, by_load)
    wanted = min(size.max, asked)
    return DesktopDemand(have=have, wanted=wanted, idle=idle, beyond=asked - wanted)


def resize(sheet: ActionSheet, found: DesktopDemand) -> None:
    """Grow or shrink the pool to its need; a desktop that its user left is recreated."""
    missing = found.wanted - found.have
    if missing > 0:
        missing = _grow(sheet, missing)
    else:
        _drop_broken(sheet)
        if sheet.view.closing:
            _drop_off(sheet)
        _shrink(sheet, -missing, found.idle)
    _refresh(sheet)
    _tell(sheet, found, max(0, missing))


def _counts(sheet: ActionSheet, desktop: Desktop) -> bool:
    """Whether it serves a user, or will do so soon."""
    action = sheet.actions.get(desktop.name)
    if action is not None:
        return action.do is not DesktopVerb.DELETE and not (
            action.do is DesktopVerb.RECREATE and action.image != sheet.view.image
        )
    if desktop.used:
        return desktop.state is not DesktopState.LEAVING
    return (desktop.ready or desktop.coming) and not suspect(sheet.view, desktop)


def _given(sheet: ActionSheet, desktop: Desktop) -> bool:
    action = sheet.actions.get(desktop.name)
    return action is not None and action.do is DesktopVerb.ASSIGN


def _grow(sheet: ActionSheet, missing: int) -> int:
    """Start existing desktops first, then create; returns the number still missing."""
    view, image = sheet.view, sheet.view.image
    free_names = view.pool.naming.free({each.name for each in view.desktops} | set(sheet.actions))
    for each in sheet.open():
        if missing and not each.used and desktop_actions_due(sheet, each) and sheet.take_room(each):
            sheet.put(DesktopVerb.RECREATE, each, f"it is {each.state}", image=image)
            missing -= 1
    below_max = view.pool.size.max - _running(sheet)
    for each in sheet.open():
        shelved = each.state is DesktopState.SHELVED and not each.used
        if shelved and min(missing, below_max, sheet.room) > 0:
            sheet.take_room(each)
            do = DesktopVerb.START if each.image == image else DesktopVerb.RECREATE
            sheet.put(do, each, "more are needed", image=image)
            missing, below_max = missing - 1, below_max - 1
    while min(missing, below_max, sheet.room) > 0:
        sheet.create(next(free_names), image, "more are needed")
        missing, below_max = missing - 1, below_max - 1
    return missing


def _running(sheet: ActionSheet) -> int:
    new = sum(each.do is DesktopVerb.CREATE for each in sheet.actions.values())
    started = sum(each.do is DesktopVerb.START for each in sheet.actions.values())
    return new + started + sum(each.runs for each in sheet.view.desktops)


def _drop_broken(sheet: ActionSheet) -> None:
    for each in sheet.open():
        if not each.used and desktop_actions_due(sheet, each):
            sheet.put(DesktopVerb.DELETE, each, f"it is {each.state}, and not needed")


def _drop_off(sheet: ActionSheet) -> None:
    """Delete every unused desktop of a pool that is emptied, desktops that are off or given up
    included.
    """
    for each in sheet.open():
        if not each.used and (each.broken or each.state is DesktopState.SHELVED):
            sheet.put(DesktopVerb.DELETE, each, "the pool is drained")


def _shrink(sheet: ActionSheet, surplus: int, idle: int) -> None:
    """Delete left desktops first, then the longest unused, as long as enough stay."""
    view = sheet.view
    for each in [each for each in sheet.open() if sheet.left_behind(each)][:surplus]:
        sheet.put(DesktopVerb.DELETE, each, "fewer are needed")
        surplus -= 1
    ready = [each for each in sheet.open() if sheet.assignable(each)]
    rested = 0.0 if view.closing else view.pool.shrink_after_s
    unused = [each for each in ready if view.now - each.since >= rested]
    unused.sort(
        key=lambda each: (each.image != view.image, len(each.name), each.name), reverse=True
    )
    do = (
        DesktopVerb.SHELVE
        if view.pool.scale_in is ScaleIn.SHELVE and not view.closing
        else DesktopVerb.DELETE
    )
    for each in unused[: max(0, min(surplus, len(ready) - idle))]:
        sheet.put(do, each, "fewer are needed")


def _refresh(sheet: ActionSheet) -> None:
    for each in sheet.open():
        if sheet.left_behind(each):
            sheet.put(DesktopVerb.RECREATE, each, "its user logged off", image=sheet.view.image)


def _tell(sheet: ActionSheet, found: DesktopDemand, missing: int) -> None:
    pool, room = sheet.view.pool, max(0, sheet.room)
    if missing and not room:
        text = f"needed: {missing} more; GPUs, hosts, quota or licence seats leave room for none"
        sheet.warn("no-room", text)
    elif found.beyond or missing:
        more = found.beyond + missing
        sheet.warn("full", f"needed: {more} more, beyond the maximum of {pool.size.max}")
    elif room < min(found.idle, pool.size.max - _running(sheet)):
        sheet.warn(
            "low-room", f"{found.idle} spares are wanted, the GPUs have room for {room} more"
        )
    if sheet.view.load is not None and sheet.view.load.silent:
        silent = sheet.view.load.silent
        sheet.warn("no-figures", f"desktops that tell no figures: {silent}; none goes for its load")
    for each in sheet.view.desktops:
        if pool.autoheal.attempts and given_up(sheet, each):
            sheet.warn("gave-up", f"{each.name} failed {each.failures} times and is not retried")
