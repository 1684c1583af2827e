"""Moves that wait until a user has logged off."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from vgpumgr.store.schema.columns import end, metadata, text, time
from vgpumgr.store.schema.promises import vm

logoff_move = Table(
    "logoff_move",
    metadata,
    Column("id", Text, primary_key=True),
    Column("vm_id", Text, ForeignKey(vm.c.id), nullable=False),
    text("vm"),
    text("user_name"),
    text("host"),
    text("leaves"),
    text("takes"),
    text("why"),
    time("asked_at"),
    end("closed_at"),
    text("outcome"),
)
Index(
    "logoff_move_once",
    logoff_move.c.vm_id,
    unique=True,
    sqlite_where=logoff_move.c.closed_at.is_(None),
    postgresql_where=logoff_move.c.closed_at.is_(None),
)
