"""What the rows of pools say against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import Connection, select

from vgpumgr.model.keeping import Problem
from vgpumgr.store.schema import desktop, pool, pool_session

_OPEN = desktop.c.closed_at.is_(None)
_NEXT = "vgpumgr pool list, then vgpumgr store restore BACKUP if a desktop is not as it says"


def pool_problems(connection: Connection) -> Iterator[Problem]:
    """Desktops of no pool, of one VM, and sessions that are not both in row and history."""
    sessions = select(pool_session.c.desktop).where(pool_session.c.closed_at.is_(None))
    on = frozenset(connection.execute(sessions).scalars())
    rows = connection.execute(
        select(desktop, pool.c.closed_at.label("pool_gone"))
        .join(pool, pool.c.id == desktop.c.pool)
        .where(_OPEN)
        .order_by(desktop.c.name)
    ).all()
    held = Counter(row.vm_id for row in rows if row.vm_id is not None)
    for row in rows:
        name = f"desktop {row.name}"
        if row.pool_gone is not None:
            yield Problem(what=f"{name} is left over", why="its pool was deleted", next=_NEXT)
        if held[row.vm_id] > 1:
            yield Problem(
                what=f"{name} has the VM of another desktop",
                why=f"{row.vm_id} belongs to two desktops",
                next=_NEXT,
            )
        if (row.id in on) != bool(row.session):
            why = "its row and the history of sessions differ"
            yield Problem(what=f"{name} is in an unclear state of use", why=why, next=_NEXT)
