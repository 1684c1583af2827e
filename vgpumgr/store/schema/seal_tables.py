"""Tables of the audit trail's seal: a leaf of the hash tree per record, and signed checkpoints."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table

from vgpumgr.store.schema.columns import metadata, text, time

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
