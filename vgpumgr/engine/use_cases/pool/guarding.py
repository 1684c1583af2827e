"""A pool's desktops are its own: nobody else makes or deletes them. Nobody who is at work on one is
cut off unnamed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.pooling import AtWork, at_work, named
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.pool.reading import user_of
from vgpumgr.model.errors import Conflict, UsersAtWork
from vgpumgr.model.journal import Reservation
from vgpumgr.model.pool import DesktopState
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.words import counted


def refuse_desktops(session: Session, names: Collection[str]) -> None:
    """Conflict for a VM that is a desktop of a pool; nothing but the pool takes it away."""
    for row in session.ledger.desktops(sorted(names)) if names else ():
        pool = next(each.name for each in session.ledger.pools() if each.id == row.pool)
        user = user_of(row)
        raise Conflict(
            f"{row.name} is a desktop of pool {pool}",
            why=f"{user} has it" if user else "its pool makes and deletes it",
            next=f"vgpumgr pool release {pool} {shlex.quote(user)}"
            if user
            else f"vgpumgr pool scale {pool}, or vgpumgr pool delete {pool}",
        )


def refuse_names(session: Session, names: Collection[str]) -> None:
    """Conflict for a VM that is a desktop, or is called as a pool calls its desktops."""
    refuse_desktops(session, names)
    for pool in session.ledger.pools():
        taken = sorted(filter(pool.spec.naming.covers, names))
        if taken:
            raise Conflict(
                f"{taken[0]} is a name that pool {pool.name} gives its desktops",
                why=f"their names are {pool.spec.naming}",
                next=f"choose another name, or vgpumgr pool show {pool.name}",
            )


def users_on(session: Session, names: Collection[str]) -> tuple[AtWork, ...]:
    """Who is at work on VMs of these names, by the last look."""
    found = at_work(session.ledger, session.view()).values() if names else ()
    return tuple(each for each in found if each.vm in names)


def refuse_users(session: Session, names: Collection[str], *, next: str) -> None:
    """UsersAtWork where a stop of these VMs would cut somebody off."""
    if users := users_on(session, names):
        raise cut_off(users, next=next)


def not_ready_meanwhile(session: Session, start: Reservation, vm: VmRecord) -> Reservation:
    """With a desktop that is stopped for a while nobody is given it: whoever got it since it was
    looked at makes the reservation stale.
    """
    rows = tuple(
        replace(row, desktop=replace(row.desktop, state=DesktopState.CREATING))
        for row in session.ledger.desktops([vm.name])
        if row.vm_id == vm.id and row.desktop.ready and row.desktop.session is None
    )
    return replace(start, desktops=rows)


def cut_off(users: Collection[AtWork], *, next: str) -> UsersAtWork:
    """The error that names them."""
    return UsersAtWork(
        f"{counted(len(users), 'user')} would be cut off: {named(users)}",
        why="each has a session there, and what is open in it would be lost",
        next=next,
    )
