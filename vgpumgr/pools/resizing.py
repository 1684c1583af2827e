"""As many desktops as are wanted: more where spares run low, fewer where nobody had them."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.pool import Desktop, DesktopState, Do, ScaleIn
from vgpumgr.pools.booked import kept
from vgpumgr.pools.keeping import due, given_up
from vgpumgr.pools.sheet import Sheet, suspect
from vgpumgr.pools.sizing import size_at


@dataclass(frozen=True, slots=True)
class Need:
    """How many desktops there are to count on, how many there should be, and of these idle."""

    have: int
    wanted: int
    idle: int
    beyond: int
    """How many more would be wanted if the maximum allowed it."""


def need(sheet: Sheet) -> Need:
    """What users, spares and bookings need; growth by load will be one more term here."""
    pool, view = sheet.view.pool, sheet.view
    counted = [each for each in view.desktops if _counts(sheet, each)]
    have = len(counted)
    if view.closing:
        return Need(have=have, wanted=0, idle=0, beyond=0)
    used = sum(each.used or _given(sheet, each) for each in counted)
    size = size_at(pool, view.now)
    idle = size.spare + kept(view)
    asked = max(size.min, used + sheet.unmet + idle)
    wanted = min(size.max, asked)
    return Need(have=have, wanted=wanted, idle=idle, beyond=asked - wanted)


def resize(sheet: Sheet, found: Need) -> None:
    """Grow or shrink to what is wanted; who left a desktop leaves it to be recreated."""
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


def _counts(sheet: Sheet, desktop: Desktop) -> bool:
    """Whether it serves a user, or will do so soon."""
    action = sheet.actions.get(desktop.name)
    if action is not None:
        return action.do is not Do.DELETE and not (
            action.do is Do.RECREATE and action.image != sheet.view.image
        )
    if desktop.used:
        return desktop.state is not DesktopState.LEAVING
    return (desktop.ready or desktop.coming) and not suspect(sheet.view, desktop)


def _given(sheet: Sheet, desktop: Desktop) -> bool:
    action = sheet.actions.get(desktop.name)
    return action is not None and action.do is Do.ASSIGN


def _grow(sheet: Sheet, missing: int) -> int:
    """What was there before comes first; returns how many are missing still."""
    view, image = sheet.view, sheet.view.image
    free_names = view.pool.naming.free({each.name for each in view.desktops} | set(sheet.actions))
    for each in sheet.open():
        if missing and not each.used and due(sheet, each) and sheet.take_room(each):
            sheet.put(Do.RECREATE, each, f"it is {each.state}", image=image)
            missing -= 1
    below_max = view.pool.size.max - _running(sheet)
    for each in sheet.open():
        shelved = each.state is DesktopState.SHELVED and not each.used
        if shelved and min(missing, below_max, sheet.room) > 0:
            sheet.take_room(each)
            do = Do.START if each.image == image else Do.RECREATE
            sheet.put(do, each, "more are needed", image=image)
            missing, below_max = missing - 1, below_max - 1
    while min(missing, below_max, sheet.room) > 0:
        sheet.create(next(free_names), image, "more are needed")
        missing, below_max = missing - 1, below_max - 1
    return missing


def _running(sheet: Sheet) -> int:
    new = sum(each.do is Do.CREATE for each in sheet.actions.values())
    started = sum(each.do is Do.START for each in sheet.actions.values())
    return new + started + sum(each.runs for each in sheet.view.desktops)


def _drop_broken(sheet: Sheet) -> None:
    for each in sheet.open():
        if not each.used and due(sheet, each):
            sheet.put(Do.DELETE, each, f"it is {each.state}, and not needed")


def _drop_off(sheet: Sheet) -> None:
    """Of a pool that is emptied all goes that nobody has: what is off or given up, too."""
    for each in sheet.open():
        if not each.used and (each.broken or each.state is DesktopState.SHELVED):
            sheet.put(Do.DELETE, each, "the pool is drained")


def _shrink(sheet: Sheet, surplus: int, idle: int) -> None:
    """Those left behind first; then those that nobody had for a while, as long as enough stay."""
    view = sheet.view
    for each in [each for each in sheet.open() if sheet.left_behind(each)][:surplus]:
        sheet.put(Do.DELETE, each, "fewer are needed")
        surplus -= 1
    ready = [each for each in sheet.open() if sheet.assignable(each)]
    rested = 0.0 if view.closing else view.pool.shrink_after_s
    unused = [each for each in ready if view.now - each.since >= rested]
    unused.sort(
        key=lambda each: (each.image != view.image, len(each.name), each.name), reverse=True
    )
    do = Do.SHELVE if view.pool.scale_in is ScaleIn.SHELVE and not view.closing else Do.DELETE
    for each in unused[: max(0, min(surplus, len(ready) - idle))]:
        sheet.put(do, each, "fewer are needed")


def _refresh(sheet: Sheet) -> None:
    for each in sheet.open():
        if sheet.left_behind(each):
            sheet.put(Do.RECREATE, each, "its user logged off", image=sheet.view.image)


def _tell(sheet: Sheet, found: Need, missing: int) -> None:
    pool, room = sheet.view.pool, max(0, sheet.room)
    if missing and not room:
        text = f"needed: {missing} more; GPUs, hosts or the tenant's quota have no capacity for one"
        sheet.warn("no-room", text)
    elif found.beyond or missing:
        more = found.beyond + missing
        sheet.warn("full", f"needed: {more} more, beyond the maximum of {pool.size.max}")
    elif room < min(found.idle, pool.size.max - _running(sheet)):
        sheet.warn(
            "low-room", f"{found.idle} spares are wanted, the GPUs have room for {room} more"
        )
    for each in sheet.view.desktops:
        if pool.autoheal.attempts and given_up(sheet, each):
            sheet.warn("gave-up", f"{each.name} failed {each.failures} times and is not retried")
