"""What tenants may hold, and who waits for room."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from vgpumgr.store.schema.columns import end, integer, metadata, text, time
from vgpumgr.store.schema.promises import vm

# The generation is raised by whoever takes more: the row's lock is what two takers meet at.
quota = Table(
    "quota",
    metadata,
    Column("tenant", Text, primary_key=True),
    text("limits"),
    integer("generation"),
)

queue = Table(
    "queue",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    text("spec"),
    text("state"),
    time("since"),
    end("started_at"),
    end("closed_at"),
    Column("vm_id", Text, ForeignKey(vm.c.id), index=True),
    integer("preempted"),
    text("why"),
    integer("generation"),
)
Index(
    "queue_name_once",
    queue.c.name,
    unique=True,
    sqlite_where=queue.c.closed_at.is_(None),
    postgresql_where=queue.c.closed_at.is_(None),
)
