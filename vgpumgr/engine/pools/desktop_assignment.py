"""Desktops assigned to users, and released by them."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace

from vgpumgr.engine.desktops.desktop_state import row_after
from vgpumgr.engine.desktops.pool_decision import AssignmentRefusal
from vgpumgr.engine.desktops.pool_decision import assign as decide
from vgpumgr.engine.desktops.session_ends import EndReason
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.pools.pool_reading import read
from vgpumgr.model.desktop import DesktopRecord, DesktopRequest, DesktopRequestRecord
from vgpumgr.model.errors import Conflict, NotFound, NotPermitted, StaleGeneration, VgpumgrError


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedDesktop:
    """The desktop that a user has now (its name and host), or why none is there yet."""

    pool: str
    user: str
    desktop: str = ""
    host: str = ""
    waits: str = ""


def assign(
    context: EngineContext, name: str, user: str, groups: Collection[str] = ()
) -> AssignedDesktop:
    """Assign a desktop to a user, or let the user wait for one; NotPermitted or Conflict where that
    is refused.

    Users that wait already come first.
    """

    def attempt() -> AssignedDesktop:
        pool, reading = context.ledger.pool(name), read(context)
        mine = (each.ask.since for each in reading.asks if _asks(each, pool.id, user))
        ask = DesktopRequest(user=user, since=next(mine, reading.now), groups=frozenset(groups))
        found = decide(reading.of(pool), ask)
        if isinstance(found, AssignmentRefusal) and not found.waits:
            raise _refused(found, name)
        if isinstance(found, AssignmentRefusal):
            context.ledger.ask_desktop(
                DesktopRequestRecord(id=context.new_uuid(), pool=pool.id, ask=ask)
            )
            return AssignedDesktop(pool=name, user=user, waits=found.text)
        row = next(each for each in reading.rows if each.name == found.desktop)
        move = row_after(found, pool, row, reading.now, "")
        if move is None or not context.ledger.take_desktops([move], pool):
            raise StaleGeneration(
                f"{found.desktop} was assigned to another user", next=_again(name, user)
            )
        return AssignedDesktop(pool=name, user=user, desktop=row.name, host=row.desktop.host)

    try:
        return until_current(attempt)
    except StaleGeneration:
        return _wait(context, name, user, groups)


def _wait(context: EngineContext, name: str, user: str, groups: Collection[str]) -> AssignedDesktop:
    """In a rush others were faster each time: `serve` assigns in the order of requests."""
    ask = DesktopRequest(user=user, since=context.clock.now(), groups=frozenset(groups))
    pool = context.ledger.pool(name)
    context.ledger.ask_desktop(DesktopRequestRecord(id=context.new_uuid(), pool=pool.id, ask=ask))
    waits = "others are assigned desktops at this moment"
    return AssignedDesktop(pool=name, user=user, waits=waits)


def release(
    context: EngineContext, name: str, user: str, *, for_good: bool = False, tell: bool = False
) -> tuple[DesktopRecord, ...]:
    """End a user's sessions in a pool, and its waiting; ``for_good``: what it owns, too. ``tell``:
    the user has not asked for it, and is told in the guest.

    NotFound where it has nothing there.
    """
    if tell:
        pool_id = context.ledger.pool(name).id
        rows = [each for each in context.ledger.desktops() if each.pool == pool_id]
        tell_now(context, [each.name for each in rows if _is_on(each, user)], EndReason.ENDED)

    def attempt() -> tuple[DesktopRecord, ...]:
        ledger, pool, now = context.ledger, context.ledger.pool(name), context.clock.now()
        mine = [each for each in ledger.desktops() if each.pool == pool.id and _has(each, user)]
        ending = [each for each in mine if _is_on(each, user) or for_good]
        waited = ledger.end_ask(pool.id, user)
        if not ending:
            if waited:
                return ()
            raise _has_none(name, user, owned=bool(mine))
        moves = [_ended(each, now, for_good=for_good) for each in ending]
        if len(ledger.take_desktops(moves)) < len(moves):
            raise StaleGeneration(f"a desktop of {user} changed meanwhile")
        return tuple(ending)

    return until_current(attempt)


def withdraw(context: EngineContext, name: str, user: str) -> bool:
    """Let a user wait no more; did it wait?"""
    return context.ledger.end_ask(context.ledger.pool(name).id, user)


def desktop_of(context: EngineContext, name: str, user: str) -> str:
    """The desktop of a pool on which a user is; Conflict where it is on none."""
    pool = context.ledger.pool(name)
    for row in context.ledger.desktops():
        if row.pool == pool.id and _is_on(row, user):
            return row.name
    raise Conflict(f"{user} has no session on a desktop of {name}", next=_again(name, user))


def _refused(refusal: AssignmentRefusal, pool: str) -> VgpumgrError:
    if refusal.code == "not-entitled":
        return NotPermitted(
            refusal.text,
            next=f"vgpumgr pool show {pool} says who is; name the user's groups with --group",
        )
    return Conflict(refusal.text, next=f"vgpumgr pool show {pool}")


def _has_none(pool: str, user: str, *, owned: bool) -> VgpumgrError:
    if owned:
        return Conflict(
            f"{user} has no session on a desktop of {pool}, and owns one",
            next=f"vgpumgr pool release {pool} {shlex.quote(user)} --for-good",
        )
    return NotFound(f"{user} has no desktop of pool {pool}", next=f"vgpumgr pool show {pool}")


def _ended(row: DesktopRecord, now: float, *, for_good: bool) -> DesktopRecord:
    owner = "" if for_good else row.desktop.owner
    left = replace(row.desktop, session=None, owner=owner)
    if left.ready:
        left = replace(left, since=now)
    return replace(row, desktop=left, why="released")


def _asks(each: DesktopRequestRecord, pool: str, user: str) -> bool:
    return each.pool == pool and each.ask.user == user


def _has(row: DesktopRecord, user: str) -> bool:
    return row.desktop.owner == user or _is_on(row, user)


def _is_on(row: DesktopRecord, user: str) -> bool:
    return row.desktop.session is not None and row.desktop.session.user == user


def _again(pool: str, user: str) -> str:
    return f"vgpumgr pool assign {pool} {shlex.quote(user)}"
