"""What GPUs and hosts refused."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, Table

from vgpumgr.store.schema.columns import end, metadata, text, time

# ``gpu`` is empty where the host itself refused. A row is closed by a success there, or by an
# operator.
refusal = Table(
    "refusal",
    metadata,
    Column("id", Integer, primary_key=True),
    time("at"),
    text("host"),
    text("gpu"),
    text("vm"),
    text("operation", index=True),
    text("task"),
    text("what"),
    text("why"),
    Column("counts", Boolean, nullable=False),
    Column("if_taken", Boolean, nullable=False),
    time("until"),
    end("closed_at"),
)
Index(
    "refusal_open",
    refusal.c.at,
    sqlite_where=refusal.c.closed_at.is_(None),
    postgresql_where=refusal.c.closed_at.is_(None),
)
