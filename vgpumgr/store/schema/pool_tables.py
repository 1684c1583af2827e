"""Tables of VDI pools: desktops, user sessions, requests for a desktop, bookings."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Table, Text

from vgpumgr.store.schema.columns import end, integer, metadata, optional, text, time
from vgpumgr.store.schema.vm_tables import vm

# The generation is raised by whoever gives desktops to users, too: they meet at the pool's row.
pool = Table(
    "pool",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    text("spec"),
    optional("rollout"),
    Column("closing", Boolean, nullable=False),
    Column("leaving", Boolean, nullable=False),
    time("created_at"),
    end("closed_at"),
    integer("generation"),
)

desktop = Table(
    "desktop",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, ForeignKey(pool.c.id), nullable=False, index=True),
    text("name"),
    Column("vm_id", Text, ForeignKey(vm.c.id)),
    text("doing"),
    text("state"),
    text("image"),
    time("since"),
    text("host"),
    text("owner"),
    optional("session"),
    Column("stained", Boolean, nullable=False),
    integer("failures"),
    text("why"),
    end("closed_at"),
    integer("generation"),
)

pool_session = Table(
    "pool_session",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, ForeignKey(pool.c.id), nullable=False, index=True),
    Column("desktop", Text, ForeignKey(desktop.c.id), nullable=False),
    text("name"),
    text("user_name"),
    text("booking"),
    time("since"),
    text("why"),
    end("closed_at"),
)

pool_ask = Table(
    "pool_ask",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, ForeignKey(pool.c.id), nullable=False),
    text("user_name"),
    text("user_groups"),
    time("since"),
    end("closed_at"),
)

booking = Table(
    "booking",
    metadata,
    Column("id", Text, primary_key=True),
    text("user_group"),
    text("profile"),
    integer("count"),
    time("starts_at"),
    time("ends_at"),
    text("tenant"),
    end("closed_at"),
)

for _name, *_columns in (
    ("pool_name_once", pool.c.name),
    ("desktop_name_once", desktop.c.name),
    ("pool_session_once", pool_session.c.desktop),
    ("pool_ask_once", pool_ask.c.pool, pool_ask.c.user_name),
):
    _open = _columns[0].table.c.closed_at.is_(None)
    Index(_name, *_columns, unique=True, sqlite_where=_open, postgresql_where=_open)
