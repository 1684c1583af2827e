"""Desktops on which somebody works: the agents in their guests are asked who is logged in."""

from __future__ import annotations

from vgpumgr.engine.reconcile.context import Turn
from vgpumgr.engine.use_cases import pool
from vgpumgr.model.errors import LedgerError, VgpumgrError
from vgpumgr.model.pool import DesktopRecord

# Between two questions; a guest that did not answer is left alone for longer.
AGAIN_S, MUTE_S = 60.0, 600.0
# Of one that hangs libvirt waits 5 s for an answer: after so long the others wait for another turn.
SPENT_S = 5.0


def ask(turn: Turn) -> None:
    """Ask those whose time has come, the longest waiting first."""
    clock, due = turn.session.clock, turn.memory.guests
    rows = {row.vm_id: row for row in pool.to_ask(turn.session, turn.host)}
    for gone in due.keys() - rows.keys():
        del due[gone]
    now = clock.monotonic()
    waiting = sorted((due.get(vm, 0.0), vm) for vm in rows if due.get(vm, 0.0) <= now)
    for _, vm in waiting:
        if turn.session.stop.is_set() or clock.monotonic() >= now + SPENT_S:
            return
        due[vm] = clock.monotonic() + (AGAIN_S if _ask(turn, rows[vm]) else MUTE_S)


def _ask(turn: Turn, row: DesktopRecord) -> bool:
    """Did it answer?"""
    there = row.desktop.session
    try:
        found = turn.session.host(turn.host).domains.guest(row.vm_id)
        if there is None or found is None or found.users is None:
            return False
        pool.logged_in(turn.session, row.name, there.user, found.users)
    except LedgerError:
        raise
    except VgpumgrError:
        return False  # of a host that does not answer, or a domain that is gone, its turn tells
    return True
