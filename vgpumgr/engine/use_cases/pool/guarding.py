"""A pool's desktops are its own: nobody else makes or deletes them."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.pool.reading import user_of
from vgpumgr.model.errors import Conflict


def refuse_desktops(session: Session, names: Collection[str]) -> None:
    """Conflict for a VM that is a desktop of a pool; nothing but the pool takes it away."""
    for row in session.ledger.desktops(sorted(names)) if names else ():
        pool = next(each.name for each in session.ledger.pools() if each.id == row.pool)
        user = user_of(row)
        raise Conflict(
            f"{row.name} is a desktop of pool {pool}",
            why=f"{user} has it" if user else "its pool creates and deletes it",
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
                f"{taken[0]} is a name that pool {pool.name} uses for its desktops",
                why=f"their names are {pool.spec.naming}",
                next=f"choose another name, or vgpumgr pool show {pool.name}",
            )
