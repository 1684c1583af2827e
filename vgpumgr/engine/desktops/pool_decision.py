"""The pool controller's decision: desktops for users first, then repair, then images, then
size. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr.engine.desktops.desktop_actions import (
    ActionSheet,
    drain,
    heal_used,
    leave_lost,
    suspect,
    time_out,
)
from vgpumgr.engine.desktops.pool_rollout import judged_rollout, roll
from vgpumgr.engine.desktops.pool_size import DesktopDemand, kept, need, redeemable, resize
from vgpumgr.model.desktop import (
    Desktop,
    DesktopRequest,
    DesktopState,
    DesktopVerb,
    PoolAction,
    PoolCounts,
    PoolDecision,
    PoolView,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRefusal:
    """The reason for which a user gets no desktop. ``waits``: a desktop may soon be free.

    ``code``: ``not-entitled``, ``too-many``, ``closing`` — or, worth waiting for, ``none-ready``,
    ``booked``, ``not-ready`` (the user's own).
    """

    code: str
    text: str
    waits: bool = False


def assign(view: PoolView, ask: DesktopRequest) -> PoolAction | AssignmentRefusal:
    """The desktop that the user gets now, or the reason for none; earlier requests come first."""
    sheet = ActionSheet(view)
    for each in _in_line(view):
        if each.user != ask.user and _turn_of(each) < _turn_of(ask):
            serve(sheet, each)
    others = bool(sheet.actions)
    refusal = serve(sheet, ask)
    if refusal is None:
        return next(each for each in sheet.actions.values() if each.user == ask.user)
    if others and refusal.code == "none-ready":
        return replace(refusal, text="others asked before")
    return refusal


def _turn_of(ask: DesktopRequest) -> tuple[float, str]:
    return ask.since, ask.user


def _in_line(view: PoolView) -> list[DesktopRequest]:
    return sorted(view.asks, key=_turn_of)


def serve_all(sheet: ActionSheet) -> None:
    """Serve the requests, the oldest first; returns the number of users without a desktop."""
    for ask in _in_line(sheet.view):
        refusal = serve(sheet, ask)
        sheet.unmet += refusal is not None and refusal.code in {"none-ready", "booked"}


def assignments(view: PoolView) -> tuple[PoolAction, ...]:
    """Desktops that users who wait get now, by the order of their requests, and no other action."""
    sheet = ActionSheet(view)
    serve_all(sheet)
    return tuple(each for each in sheet.actions.values() if each.do is DesktopVerb.ASSIGN)


def serve(sheet: ActionSheet, ask: DesktopRequest) -> AssignmentRefusal | None:
    """Decide on one user's request; None: the user has got a desktop."""
    pool = sheet.view.pool
    if not pool.entitlement.admits(ask.user, ask.groups):
        return AssignmentRefusal(
            code="not-entitled", text=f"{ask.user} and its groups are not entitled to {pool.name}"
        )
    own = [each for each in sheet.view.desktops if _is_of(each, ask.user)]
    back = next((each for each in own if _away(each) and each.name not in sheet.actions), None)
    if back is not None:
        return _return_to(sheet, ask, back)
    given = {each.desktop for each in sheet.actions.values() if each.user == ask.user}
    has, most = given | {each.name for each in own}, pool.entitlement.per_user
    if len(has) >= most:
        text = f"{ask.user} has {', '.join(sorted(has))}, and may have {most} at a time"
        return AssignmentRefusal(code="too-many", text=text)
    if sheet.view.closing:
        return AssignmentRefusal(code="closing", text=f"{pool.name} is being drained")
    return _give(sheet, ask)


def _return_to(sheet: ActionSheet, ask: DesktopRequest, own: Desktop) -> AssignmentRefusal | None:
    """The user's own desktop, as it was left."""
    if own.state is DesktopState.READY:
        booking = own.session.booking if own.session else ""
        sheet.put(DesktopVerb.ASSIGN, own, f"{ask.user} reconnects", user=ask.user, booking=booking)
        return None
    if own.state is DesktopState.SHELVED and sheet.take_room(own):
        sheet.put(DesktopVerb.START, own, f"{ask.user} reconnects", user=ask.user)
    text = f"{own.name}, the desktop of {ask.user}, is {own.state}"
    return AssignmentRefusal(code="not-ready", text=text, waits=True)


def _give(sheet: ActionSheet, ask: DesktopRequest) -> AssignmentRefusal | None:
    ready = [each for each in sheet.open() if sheet.assignable(each)]
    if not ready:
        return AssignmentRefusal(code="none-ready", text=_none_ready(sheet.view), waits=True)
    reserved = kept(sheet.view, ask.groups)
    if len(ready) <= reserved:
        text = f"the {len(ready)} desktops that are ready are reserved for bookings"
        return AssignmentRefusal(code="booked", text=text, waits=True)
    image = sheet.view.image
    chosen = min(ready, key=lambda each: (each.image != image, each.since, each.name))
    booking = redeemable(sheet.view, ask.groups)
    sheet.put(DesktopVerb.ASSIGN, chosen, f"{ask.user} asked", user=ask.user, booking=booking)
    return None


def _none_ready(view: PoolView) -> str:
    tried = [each.name for each in view.desktops if each.free and suspect(view, each)]
    most = view.pool.size.max
    if tried and view.rollout is not None:
        return f"no desktop is ready but {tried[0]}, the canary of {view.rollout.image}"
    if sum(each.used for each in view.desktops) >= most:
        return f"no desktop is ready: all {most} (the maximum) are in use"
    return "no desktop is ready"


def _is_of(desktop: Desktop, user: str) -> bool:
    there = desktop.session is not None and desktop.session.user == user
    return desktop.owner == user or (there and not desktop.broken)


def _away(desktop: Desktop) -> bool:
    """Whether its user is not looking at it: asking means to come back to it."""
    return desktop.session is None or desktop.session.disconnected is not None


def decide_pool(view: PoolView) -> PoolDecision:
    """The pool's actions now.

    No action here deletes, shelves or recreates a desktop in use (``Desktop.used``) or in an
    unknown state. Sessions end by the pool's own time-outs, the deadline of a drained host, the
    proven loss of a host, and ``update: {when: at-once}`` alone.
    """
    rollout = judged_rollout(view)
    view = replace(view, rollout=rollout)
    sheet = ActionSheet(view)
    serve_all(sheet)
    leave_lost(sheet)
    heal_used(sheet)
    drain(sheet)
    time_out(sheet)
    roll(sheet)
    found = need(sheet)
    resize(sheet, found)
    return PoolDecision(
        actions=tuple(sheet.actions.values()),
        counts=_counts(sheet, found),
        rollout=rollout,
        warnings=tuple(sheet.warnings),
    )


def _counts(sheet: ActionSheet, found: DesktopDemand) -> PoolCounts:
    desktops = sheet.view.desktops
    return PoolCounts(
        used=sum(each.used for each in desktops),
        spare=sum(map(sheet.assignable, desktops)),
        coming=sum(each.coming for each in desktops),
        broken=sum(each.broken for each in desktops),
        wanted=found.wanted,
        startable=sheet.view.startable,
        waiting=sheet.unmet,
    )
