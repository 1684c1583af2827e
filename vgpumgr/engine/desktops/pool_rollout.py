"""The rollout of a new image in a pool: a canary, then step by step, stopped and rolled back
after failures. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vgpumgr.engine.desktops.desktop_actions import ActionSheet, backoff_is_over, suspect
from vgpumgr.engine.desktops.pool_size import size_at
from vgpumgr.engine.desktops.session_ends import image_logoff_at
from vgpumgr.model.desktop import (
    Desktop,
    DesktopState,
    DesktopVerb,
    PoolView,
    Rollout,
    RolloutPhase,
)
from vgpumgr.model.pool import UpdateWhen


def judged_rollout(view: PoolView) -> Rollout | None:
    """The rollout by what is to be seen of its image now."""
    rollout = view.rollout
    if rollout is None or rollout.phase not in {RolloutPhase.CANARY, RolloutPhase.ROLLING}:
        return rollout
    policy = view.pool.update
    updated = [each for each in view.desktops if each.image == rollout.image and each.runs]
    bad = [each for each in updated if _speaks_against(each, rollout)]
    most = 1 if rollout.phase is RolloutPhase.CANARY else policy.max_failures
    if bad and sum(max(1, each.failures) for each in bad) >= most:
        names = ", ".join(each.name for each in bad[:3])
        why = f"{names} did not become ready on {rollout.image}"
        phase = RolloutPhase.BACK if policy.rollback else RolloutPhase.STOPPED
        return replace(rollout, phase=phase, why=why)
    if rollout.phase is RolloutPhase.CANARY:
        proven = any(each.ready and view.now - each.since >= policy.soak_s for each in updated)
        return replace(rollout, phase=RolloutPhase.ROLLING) if proven else rollout
    done = all(each.image == rollout.image for each in view.desktops if each.runs)
    return replace(rollout, phase=RolloutPhase.DONE) if done else rollout


def roll(sheet: ActionSheet) -> None:
    """The next desktops that get the image; none of a pool that is emptied."""
    rollout = sheet.view.rollout
    if rollout is None or sheet.view.closing:
        return
    if rollout.phase is RolloutPhase.CANARY:
        _send_canary(sheet, rollout)
    elif rollout.phase in {RolloutPhase.ROLLING, RolloutPhase.BACK}:
        _next_step(sheet)
    if rollout.why:
        sheet.warn("stopped", f"{rollout.image} was stopped: {rollout.why}")


def _speaks_against(desktop: Desktop, rollout: Rollout) -> bool:
    """Whether a desktop failed on the image before it had a user; a lost host proves nothing."""
    failed = desktop.state is DesktopState.FAILED or (desktop.coming and desktop.failures > 0)
    return failed and desktop.since >= rollout.since and not desktop.stained and not desktop.used


def _send_canary(sheet: ActionSheet, rollout: Rollout) -> None:
    view = sheet.view
    if any(each.image == rollout.image and (each.ready or each.coming) for each in view.desktops):
        return
    why = f"the canary of {rollout.image}"
    chosen = next(_to_spare(sheet), None)
    if chosen is not None:
        sheet.put(DesktopVerb.RECREATE, chosen, why, image=rollout.image)
    elif sheet.room > 0 and sum(each.runs for each in view.desktops) < view.pool.size.max:
        taken = {each.name for each in view.desktops}
        sheet.create(next(view.pool.naming.free(taken)), rollout.image, why)


def _next_step(sheet: ActionSheet) -> None:
    view = sheet.view
    under_way = sum(each.coming and each.image == view.image for each in view.desktops)
    slots = view.pool.update.step - under_way
    why = f"{view.image} replaces {{}}"
    for each in [*_to_spare(sheet), *_owned(sheet), *_in_use(sheet)][: max(0, slots)]:
        if each.session is not None:
            sheet.put(DesktopVerb.LOGOFF, each, why.format(each.image), user=each.session.user)
        else:
            do = DesktopVerb.UPDATE if each.owner else DesktopVerb.RECREATE
            sheet.put(do, each, why.format(each.image), image=view.image)


def _to_spare(sheet: ActionSheet) -> Iterator[Desktop]:
    """Outdated desktops that can be spared: left ones, then ready ones beyond ``min_ready``."""
    view = sheet.view
    least = view.pool.update.min_ready
    if least is None:
        least = size_at(view.pool, view.now, view.holidays).spare // 2
    outdated = [each for each in sheet.open() if _outdated(view, each)]
    yield from (each for each in outdated if sheet.left_behind(each) or _useless(sheet, each))
    over = sum(map(sheet.assignable, sheet.open())) - least
    yield from [each for each in outdated if sheet.assignable(each)][: max(0, over)]


def _outdated(view: PoolView, desktop: Desktop) -> bool:
    """In the canary's phase every desktop is."""
    assert view.rollout is not None
    target = view.rollout.image if view.rollout.phase is RolloutPhase.CANARY else view.image
    return desktop.image != target


def _useless(sheet: ActionSheet, desktop: Desktop) -> bool:
    return desktop.free and suspect(sheet.view, desktop)


def _owned(sheet: ActionSheet) -> list[Desktop]:
    """Dedicated desktops whose owners are not logged on."""
    return [
        each
        for each in sheet.open()
        if each.owner
        and each.session is None
        and each.ready
        and _outdated(sheet.view, each)
        and _may_try(sheet, each)
    ]


def _may_try(sheet: ActionSheet, desktop: Desktop) -> bool:
    """Whether it was not refused this image before, or the time has come to try again."""
    rollout = sheet.view.rollout
    if not desktop.failures or rollout is None or desktop.since < rollout.since:
        return True
    if desktop.failures < sheet.view.pool.autoheal.attempts:
        return backoff_is_over(sheet, desktop)
    text = f"{desktop.name} did not start on {sheet.view.image} and keeps {desktop.image}"
    sheet.warn("gave-up", text)
    return False


def _in_use(sheet: ActionSheet) -> list[Desktop]:
    """Desktops whose users are logged off for the image; never for a rollback."""
    view = sheet.view
    assert view.rollout is not None
    if view.pool.update.when is UpdateWhen.AT_LOGOFF or view.rollout.phase is RolloutPhase.BACK:
        return []
    if view.now < image_logoff_at(view.rollout):
        return []  # they are told before
    return [each for each in sheet.open() if each.session and each.ready and _outdated(view, each)]
