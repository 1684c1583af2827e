"""What an action of a turn makes of a desktop's row. Pure."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.model.pool import (
    Desktop,
    DesktopRecord,
    DesktopState,
    Do,
    PoolAction,
    PoolKind,
    PoolRecord,
    Session,
)


def taken(
    action: PoolAction, pool: PoolRecord, row: DesktopRecord | None, now: float, new_id: str
) -> DesktopRecord | None:
    """The row as the action leaves it; None where it is not what was decided on."""
    if row is None or action.seen is None:
        return _new(action, pool, now, new_id) if row is None and action.seen is None else None
    if row.desktop != action.seen:
        return None
    after = replace(row, why=action.why)
    it = row.desktop
    match action.do:
        case Do.ASSIGN:
            return replace(after, desktop=_assigned(it, action, pool, now))
        case Do.DISCONNECT if it.session is not None:
            return replace(
                after, desktop=replace(it, session=replace(it.session, disconnected=now))
            )
        case Do.LOGOFF:
            return replace(after, desktop=replace(it, session=None, since=now))
        case Do.RECREATE:
            failures = it.failures if it.image == action.image else 0
            fresh = replace(it, image=action.image, stained=False, failures=failures)
            return _begun(after, fresh, Do.RECREATE, DesktopState.CREATING, now)
        case Do.UPDATE:
            tried = pool.rollout is not None and it.since >= pool.rollout.since
            newer = replace(it, image=action.image, failures=it.failures if tried else 0)
            return _begun(after, newer, Do.UPDATE, DesktopState.CREATING, now)
        case Do.START | Do.HEAL:
            return _begun(after, it, action.do, DesktopState.CREATING, now)
        case Do.DELETE | Do.SHELVE:
            return _begun(after, it, action.do, DesktopState.LEAVING, now)
        case _:
            return None


def _new(action: PoolAction, pool: PoolRecord, now: float, new_id: str) -> DesktopRecord:
    made = Desktop(name=action.desktop, state=DesktopState.CREATING, image=action.image, since=now)
    return DesktopRecord(id=new_id, pool=pool.id, desktop=made, doing=Do.CREATE, why=action.why)


def _begun(
    row: DesktopRecord, it: Desktop, do: Do, state: DesktopState, now: float
) -> DesktopRecord:
    return replace(row, doing=do, desktop=replace(it, state=state, since=now))


def _assigned(it: Desktop, action: PoolAction, pool: PoolRecord, now: float) -> Desktop:
    """A new session, or the one that its user comes back to."""
    if it.session is not None:
        return replace(it, session=replace(it.session, active=now, disconnected=None))
    begun = Session(user=action.user, since=now, active=now, booking=action.booking)
    owner = action.user if pool.spec.kind is PoolKind.DEDICATED else ""
    return replace(it, session=begun, owner=owner, stained=True)
