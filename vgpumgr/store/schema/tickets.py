"""Who asked to connect to a VM, and what became of it."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from vgpumgr.store.schema.columns import end, metadata, text, time
from vgpumgr.store.schema.promises import vm

ticket = Table(
    "ticket",
    metadata,
    Column("id", Text, primary_key=True),
    Column("vm_id", Text, ForeignKey(vm.c.id), nullable=False),
    text("vm"),
    text("user"),
    text("machine"),
    text("key"),
    text("state"),
    time("asked_at"),
    text("address"),
    text("answer"),
    end("opened_at"),
    end("connected_at"),
    end("closed_at"),
    text("code"),
    text("why"),
    text("next"),
    text("uids", server_default=""),
)
Index(
    "ticket_open",
    ticket.c.asked_at,
    sqlite_where=ticket.c.closed_at.is_(None),
    postgresql_where=ticket.c.closed_at.is_(None),
)
