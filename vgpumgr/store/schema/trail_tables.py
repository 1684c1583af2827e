"""Tables of the audit trail: its tree of hashes, signed checkpoints, webhooks and
notifications that follow it.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table, Text

from vgpumgr.store.schema.columns import end, integer, metadata, of_tenant, text, time

# The leaf numbers have no gap, which the numbers of records may have.
seal = Table(
    "seal",
    metadata,
    Column("leaf", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False, unique=True),
    text("hash"),
)

# ``edge`` are the roots of the tree's complete subtrees, from which it goes on growing.
checkpoint = Table(
    "checkpoint",
    metadata,
    Column("size", Integer, primary_key=True, autoincrement=False),
    time("at"),
    text("root"),
    text("edge"),
    text("note"),
)


webhook = Table(
    "webhook",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    of_tenant(),
    text("url"),
    text("events"),
    integer("cursor"),
    integer("failures"),
    end("retry_at"),
    end("paused_at"),
    text("why"),
    end("delivered_at"),
    time("created_at"),
    text("created_by"),
)

notification = Table(
    "notification",
    metadata,
    Column("name", Text, primary_key=True),
    text("rule"),
    integer("cursor"),
    end("sent_at"),
    integer("mails"),
    integer("failures"),
    end("retry_at"),
    end("paused_at"),
    text("why"),
)

calendar = Table(
    "calendar",
    metadata,
    Column("name", Text, primary_key=True),
    text("days"),
)
