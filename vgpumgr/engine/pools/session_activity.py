"""Whether a user is active on a desktop: by its viewer's traffic, its agent, its GPU's work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.console_ticket import TicketState
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.desktop import DesktopSession as Sitting

NOTED_EVERY_S = 60.0
"""A session's use by its GPU is written down no more often."""
# In one transaction.
_AT_ONCE = 500
# The controller changes desktops, too, and rarely.
_ATTEMPTS = 10


def heartbeat(context: EngineContext, desktop: str, user: str) -> None:
    """The user is there: its session is in use now. Nothing where it has none on this desktop."""
    now = context.clock.now()
    _note(context, desktop, user, lambda it: replace(it, active=now, disconnected=None))


def viewer_left(context: EngineContext, desktop: str, user: str) -> None:
    """Record that the user's viewer has disconnected: the disconnect_timeout begins."""
    now = context.clock.now()
    _note(context, desktop, user, lambda it: _away(it, now))


def logged_in(context: EngineContext, desktop: str, user: str, count: int) -> None:
    """Record the guest's number of logged-in users: the session is in use, or it is so no longer. A
    logged-in user does not prove that a session without a viewer is looked at, nor one whose GPU
    rests, where the pool asks for its work.
    """
    now, rests = context.clock.now(), bool(count) and _rests(context, desktop)

    def changed(it: Sitting) -> Sitting:
        if count:
            return replace(it, active=now) if it.disconnected is None and not rests else it
        return _away(it, now) if it.watched else it

    _note(context, desktop, user, changed)


def note_work(context: EngineContext) -> None:
    """Sessions whose GPU works are in use, in pools that ask for its work. A large fleet has many:
    they are written down together; one that was changed meanwhile is noted by the next cycle.
    """
    below = _idle_below(context)
    loads = context.loads.newest().vms if below else {}
    found = []
    for row in context.ledger.desktops() if loads else ():
        load, there = loads.get(row.vm_id), row.desktop.session
        if load is None or there is None or there.disconnected is not None:
            continue
        busy = row.pool in below and (load.work or 0.0) > below[row.pool]
        if busy and load.at >= there.active + NOTED_EVERY_S:
            used = replace(row.desktop, session=replace(there, active=load.at))
            found.append(replace(row, desktop=used))
    for first in range(0, len(found), _AT_ONCE):
        context.ledger.take_desktops(found[first : first + _AT_ONCE])


def _rests(context: EngineContext, desktop: str) -> bool:
    """Do the engines of its GPU do nothing to speak of, and does its pool ask for that?"""
    loads = context.loads.newest().vms
    for row in context.ledger.desktops([desktop]) if loads else ():
        load, below = loads.get(row.vm_id), _idle_below(context)
        work = load.work if load is not None else None
        return row.pool in below and work is not None and work <= below[row.pool]
    return False


def _idle_below(context: EngineContext) -> dict[str, float]:
    """By the pool's id, where its sessions are idle by the work of their GPUs."""
    return {
        pool.id: pool.spec.timeouts.idle_below
        for pool in context.ledger.pools()
        if pool.spec.timeouts.idle_below is not None
    }


def agents_to_ask(context: EngineContext, host: str) -> list[DesktopRecord]:
    """The desktops of a host whose agents know best whether a user is there: desktops with a
    session, and no viewer through the console proxy.
    """
    ledger = context.ledger
    heard = {vm.name: vm.id for vm in ledger.vms(host) if vm.spec.agent}
    if not heard:
        return []
    tickets = ledger.tickets()
    watched = {each.vm_id for each in tickets if each.state is TicketState.CONNECTED}
    return [
        row
        for row in ledger.desktops(list(heard))
        if row.vm_id == heard[row.name]
        and row.desktop.ready
        and row.desktop.session is not None
        and row.vm_id not in watched
    ]


def _away(it: Sitting, now: float) -> Sitting:
    return it if it.disconnected is not None else replace(it, disconnected=now)


def _note(
    context: EngineContext, desktop: str, user: str, change: Callable[[Sitting], Sitting]
) -> None:
    """Write it down; a desktop that was changed since it was read is read again."""
    for _ in range(_ATTEMPTS):
        moved = [
            replace(row, desktop=replace(row.desktop, session=noted))
            for row in context.ledger.desktops([desktop])
            if (there := row.desktop.session) is not None and there.user == user
            if (noted := change(there)) != there
        ]
        if not moved or context.ledger.take_desktops(moved):
            return
