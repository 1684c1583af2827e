"""One action per desktop and cycle, and the actions for broken desktops, drained hosts and idle
sessions. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.model.desktop import (
    Desktop,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PoolAction,
    PoolView,
    PoolWarning,
    RolloutPhase,
)
from vgpumgr.model.pool import PoolKind


class ActionSheet:
    """Filled in by the parts of a cycle, one after the other; what is decided stays decided."""

    def __init__(self, view: PoolView) -> None:
        self.view = view
        self.actions: dict[str, PoolAction] = {}
        self.warnings: list[PoolWarning] = []
        self.unmet = 0
        self.room = view.startable

    def put(
        self,
        do: DesktopVerb,
        seen: Desktop,
        why: str,
        *,
        image: str = "",
        user: str = "",
        booking: str = "",
    ) -> None:
        """Decide on a desktop that nothing was decided on yet."""
        assert seen.name not in self.actions
        self.actions[seen.name] = PoolAction(
            do=do, desktop=seen.name, why=why, seen=seen, image=image, user=user, booking=booking
        )

    def create(self, name: str, image: str, why: str) -> None:
        """One desktop more; it takes room."""
        self.room -= 1
        self.actions[name] = PoolAction(do=DesktopVerb.CREATE, desktop=name, why=why, image=image)

    def take_room(self, desktop: Desktop) -> bool:
        """Whether a desktop may start: it holds its place still, or takes a free place."""
        if desktop.host and desktop.state.holds_place:
            return True
        if self.room <= 0:
            return False
        self.room -= 1
        return True

    def warn(self, code: str, text: str) -> None:
        """Tell operators something."""
        self.warnings.append(PoolWarning(code=code, text=text))

    def open(self) -> Iterator[Desktop]:
        """Desktops that nothing was decided on yet."""
        return (each for each in self.view.desktops if each.name not in self.actions)

    def left_behind(self, desktop: Desktop) -> bool:
        """Whether its user has gone and it must be recreated before the next one."""
        return desktop.ready and desktop.stained and not desktop.used

    def assignable(self, desktop: Desktop) -> bool:
        """Whether a user could have it now."""
        return (
            desktop.free
            and desktop.host not in self.view.draining
            and not suspect(self.view, desktop)
        )

    @property
    def floating(self) -> bool:
        """Whether the pool's desktops are floating."""
        return self.view.pool.kind is PoolKind.FLOATING


def suspect(view: PoolView, desktop: Desktop) -> bool:
    """Whether a desktop has an image that is not proven yet, or is being rolled back: no user gets
    it.
    """
    rollout = view.rollout
    return (
        rollout is not None
        and rollout.phase in {RolloutPhase.CANARY, RolloutPhase.BACK}
        and desktop.image == rollout.image
    )


_LONGEST_S = 3600.0


def heal_used(sheet: ActionSheet) -> None:
    """Restart a broken desktop of a user; it is never recreated."""
    for each in sheet.open():
        if each.used and due(sheet, each) and sheet.take_room(each):
            sheet.put(DesktopVerb.HEAL, each, f"it is {each.state}")


def leave_lost(sheet: ActionSheet) -> None:
    """Desktops on a lost host: each is deleted once the host is back, and its user gets another.

    An owner's desktop stays: its disks are there. The VM may be evacuated for a while first.
    """
    for each in sheet.open():
        if not _lies_lost(each) or given_up(sheet, each) or not backoff_is_over(sheet, each):
            continue
        if not each.used:
            sheet.put(DesktopVerb.DELETE, each, "its host was lost")
        elif each.session is not None and sheet.floating:
            sheet.put(DesktopVerb.LOGOFF, each, "its host was lost", user=each.session.user)


def due(sheet: ActionSheet, desktop: Desktop) -> bool:
    """Whether it is broken and the time has come to try again: at once where it was lost with its
    host, and never where it lies there still.
    """
    if not desktop.broken or given_up(sheet, desktop) or _lies_lost(desktop):
        return False
    if desktop.state is DesktopState.LOST:
        return True
    return backoff_is_over(sheet, desktop)


def _lies_lost(desktop: Desktop) -> bool:
    return desktop.state is DesktopState.LOST and bool(desktop.host)


def backoff_is_over(sheet: ActionSheet, desktop: Desktop) -> bool:
    """Whether it was left alone for as long as its failures in a row say."""
    first = sheet.view.pool.autoheal.after_s
    wait = min(first * 2.0 ** max(0, desktop.failures - 1), _LONGEST_S)
    return sheet.view.now - desktop.since >= wait


def given_up(sheet: ActionSheet, desktop: Desktop) -> bool:
    """Whether the desktop is left for an operator to look at."""
    return desktop.broken and desktop.failures >= sheet.view.pool.autoheal.attempts


def drain(sheet: ActionSheet) -> None:
    """Drained hosts: unused desktops go at once, users may stay to the deadline."""
    view = sheet.view
    for each in sheet.open():
        if each.host not in view.draining or not each.ready:
            continue
        deadline = view.draining[each.host]
        if not each.used:
            sheet.put(DesktopVerb.DELETE, each, f"{each.host} is drained")
        elif each.session and deadline is not None and view.now >= deadline:
            why = f"{each.host} is drained, and its deadline has passed"
            sheet.put(DesktopVerb.LOGOFF, each, why, user=each.session.user)


def time_out(sheet: ActionSheet) -> None:
    """Disconnect idle sessions, then log them off."""
    for each in sheet.open():
        if each.session is not None and each.ready:
            _time_out(sheet, each, each.session)


def _time_out(sheet: ActionSheet, desktop: Desktop, session: DesktopSession) -> None:
    limits, now = sheet.view.pool.timeouts, sheet.view.now
    if session.disconnected is not None:
        away = now - session.disconnected
        if limits.disconnect_s is not None and away >= limits.disconnect_s:
            why = f"disconnected for {away:.0f} s"
            sheet.put(DesktopVerb.LOGOFF, desktop, why, user=session.user)
    elif limits.idle_s is not None and session.watched and now - session.active >= limits.idle_s:
        why = f"idle for {now - session.active:.0f} s"
        sheet.put(DesktopVerb.DISCONNECT, desktop, why, user=session.user)
