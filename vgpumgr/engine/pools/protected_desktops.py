"""Desktops protected from everybody but their pool: their VMs, and the names of these."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.desktop import (
    DesktopRecord,
)
from vgpumgr.model.errors import Conflict


def user_of(row: DesktopRecord) -> str:
    """The desktop's present user or owner; empty: none."""
    return row.desktop.session.user if row.desktop.session else row.desktop.owner


def unknown_desktop(pool: str, user: str) -> Conflict:
    """The error for a user without a desktop."""
    return Conflict(f"{user} has no desktop of {pool}", next=f"vgpumgr pool show {pool}")


def refuse_desktops(context: EngineContext, names: Collection[str]) -> None:
    """Conflict for a VM that is a desktop of a pool; nothing but the pool takes it away."""
    for row in context.ledger.desktops(sorted(names)) if names else ():
        pool = next(each.name for each in context.ledger.pools() if each.id == row.pool)
        user = user_of(row)
        raise Conflict(
            f"{row.name} is a desktop of pool {pool}",
            why=f"{user} has it" if user else "its pool creates and deletes it",
            next=f"vgpumgr pool release {pool} {shlex.quote(user)}"
            if user
            else f"vgpumgr pool scale {pool}, or vgpumgr pool delete {pool}",
        )


def refuse_backup(context: EngineContext, name: str) -> None:
    """Conflict for a VM that is a desktop of a pool: what comes back of it would be no desktop."""
    for row in context.ledger.desktops([name]):
        pool = next(each.name for each in context.ledger.pools() if each.id == row.pool)
        raise Conflict(
            f"{name} is a desktop of pool {pool}, and is not backed up",
            why="its pool makes it from an image again; what users keep lies in their profiles "
            "and on file servers",
            next=f"vgpumgr pool show {pool}; a dedicated machine is a VM of its own",
        )


def refuse_names(context: EngineContext, names: Collection[str]) -> None:
    """Conflict for a VM that is a desktop, or is called as a pool calls its desktops."""
    pools = context.ledger.pools()
    if pools:
        refuse_desktops(context, names)
    for pool in pools:
        taken = sorted(filter(pool.spec.naming.covers, names))
        if taken:
            raise Conflict(
                f"{taken[0]} is a name that pool {pool.name} uses for its desktops",
                why=f"their names are {pool.spec.naming}",
                next=f"choose another name, or vgpumgr pool show {pool.name}",
            )
