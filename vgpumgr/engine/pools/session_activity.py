"""Whether a user is active on a desktop, by the viewer's traffic or by the guest agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.console_ticket import TicketState
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.desktop import DesktopSession as Sitting


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
    logged-in user does not prove that a session without a viewer is looked at.
    """
    now = context.clock.now()

    def changed(it: Sitting) -> Sitting:
        if count:
            return replace(it, active=now) if it.disconnected is None else it
        return _away(it, now) if it.watched else it

    _note(context, desktop, user, changed)


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
    for row in context.ledger.desktops([desktop]):
        there = row.desktop.session
        if there is None or there.user != user:
            continue
        noted = change(there)
        if noted != there:
            moved = replace(row, desktop=replace(row.desktop, session=noted))
            context.ledger.take_desktops([moved])
