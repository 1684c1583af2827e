"""What becomes of desktops that break, of hosts that are drained, and of sessions nobody uses."""

from __future__ import annotations

from vgpumgr.model.pool import Desktop, DesktopState, Do, Session
from vgpumgr.pools.sheet import Sheet

_LONGEST_S = 3600.0


def heal_used(sheet: Sheet) -> None:
    """A broken desktop that is somebody's is restarted; it is never recreated."""
    for each in sheet.open():
        if each.used and due(sheet, each) and sheet.take_room(each):
            sheet.put(Do.HEAL, each, f"it is {each.state}")


def leave_lost(sheet: Sheet) -> None:
    """What lies on a host that was lost can only go, once the host is back; users get another.

    An owner's stays: its disks are there. A while is left for the VM to be evacuated.
    """
    for each in sheet.open():
        if not _lies_lost(each) or given_up(sheet, each) or not rested(sheet, each):
            continue
        if not each.used:
            sheet.put(Do.DELETE, each, "its host was lost")
        elif each.session is not None and sheet.floating:
            sheet.put(Do.LOGOFF, each, "its host was lost", user=each.session.user)


def due(sheet: Sheet, desktop: Desktop) -> bool:
    """Whether it is broken and the time has come to try again: at once where it was lost with its
    host, and never where it lies there still.
    """
    if not desktop.broken or given_up(sheet, desktop) or _lies_lost(desktop):
        return False
    if desktop.state is DesktopState.LOST:
        return True
    return rested(sheet, desktop)


def _lies_lost(desktop: Desktop) -> bool:
    return desktop.state is DesktopState.LOST and bool(desktop.host)


def rested(sheet: Sheet, desktop: Desktop) -> bool:
    """Whether it was left alone for as long as its failures in a row say."""
    first = sheet.view.pool.autoheal.after_s
    wait = min(first * 2.0 ** max(0, desktop.failures - 1), _LONGEST_S)
    return sheet.view.now - desktop.since >= wait


def given_up(sheet: Sheet, desktop: Desktop) -> bool:
    """Whether it is left for somebody to look at."""
    return desktop.broken and desktop.failures >= sheet.view.pool.autoheal.attempts


def drain(sheet: Sheet) -> None:
    """Hosts that are drained: what is nobody's goes, who is there may stay to the deadline."""
    view = sheet.view
    for each in sheet.open():
        if each.host not in view.draining or not each.ready:
            continue
        deadline = view.draining[each.host]
        if not each.used:
            sheet.put(Do.DELETE, each, f"{each.host} is drained")
        elif each.session and deadline is not None and view.now >= deadline:
            why = f"{each.host} is drained, and its deadline has passed"
            sheet.put(Do.LOGOFF, each, why, user=each.session.user)


def time_out(sheet: Sheet) -> None:
    """Sessions that nobody uses are disconnected, then logged off."""
    for each in sheet.open():
        if each.session is not None and each.ready:
            _time_out(sheet, each, each.session)


def _time_out(sheet: Sheet, desktop: Desktop, session: Session) -> None:
    limits, now = sheet.view.pool.timeouts, sheet.view.now
    if session.disconnected is not None:
        away = now - session.disconnected
        if limits.disconnect_s is not None and away >= limits.disconnect_s:
            why = f"disconnected for {away:.0f} s"
            sheet.put(Do.LOGOFF, desktop, why, user=session.user)
    elif limits.idle_s is not None and session.watched and now - session.active >= limits.idle_s:
        why = f"idle for {now - session.active:.0f} s"
        sheet.put(Do.DISCONNECT, desktop, why, user=session.user)
