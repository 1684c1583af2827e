"""Users are told before their session ends: by a message in the guest, which its agent shows.

A session ends by itself where its host is drained with a deadline, where it is not used for as long
as its pool says, and for a new image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpumgr.engine.desktops.session_ends import SessionEnd, session_ends
from vgpumgr.engine.migration.user_messages import TellKey, ToldUser, tell_each
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import DesktopRecord

BEFORE_S = (600.0, 120.0)
"""How long before its end a user is told, each time once."""


def ending(rows: Iterable[DesktopRecord], at: float, now: float) -> Iterator[SessionEnd]:
    """The sessions that end at ``at``, where it is time to tell their users; pure."""
    left = [each for each in BEFORE_S if at - now <= each]
    if not left or now >= at:
        return
    for row in rows:
        session = row.desktop.session
        if session is not None and row.vm_id and session.disconnected is None:
            yield SessionEnd(row=row, user=session.user, at=at, left_s=left[-1])


def tell_users(
    context: EngineContext, host: str, deadline: float, told: set[TellKey]
) -> Iterator[ToldUser]:
    """Tell the users of a host's desktops that it is drained at ``deadline``; ``told`` are those
    that were told before, and grows.
    """
    now = context.clock.now()
    if not 0 < deadline - now <= max(BEFORE_S):
        return
    vms = {vm.id: vm for vm in context.ledger.vms(host)}
    names = [vm.name for vm in vms.values()]
    rows = (row for row in context.ledger.desktops(names) if row.vm_id in vms) if names else ()
    yield from tell_each(context, ending(rows, deadline, now), vms, told)


def tell_pool_users(context: EngineContext, told: set[TellKey]) -> Iterator[ToldUser]:
    """Tell users whose sessions their pools end soon: idle ones, disconnected ones, and
    sessions that are in the way of a new image.
    """
    now = context.clock.now()
    rows = [row for row in context.ledger.desktops() if row.desktop.session is not None]
    ends = [
        each
        for pool in (context.ledger.pools() if rows else ())
        for each in session_ends(pool, rows, now, BEFORE_S)
        if each.key not in told
    ]
    if ends:
        vms = {vm.id: vm for vm in context.ledger.vms()}
        yield from tell_each(context, ends, vms, told)
