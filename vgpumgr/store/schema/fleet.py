"""The ledger itself, its hosts and their GPUs."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text

from vgpumgr.store.schema.columns import end, integer, metadata, optional, text, time

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True),
    integer("schema_version"),
    text("fleet_id"),
    integer("epoch"),
    text("frozen_why", server_default=""),
    end("frozen_at"),
)

host = Table(
    "host",
    metadata,
    Column("id", Integer, primary_key=True),
    text("name"),
    text("address"),
    text("settings"),
    integer("generation"),
    optional("facts"),
    text("supply"),
    end("observed_at"),
    text("last_error"),
    end("removed_at"),
    end("due_at"),
)
for _column in (host.c.name, host.c.address):
    Index(
        f"host_{_column.name}_once",
        _column,
        unique=True,
        sqlite_where=host.c.removed_at.is_(None),
        postgresql_where=host.c.removed_at.is_(None),
    )

gpu = Table(
    "gpu",
    metadata,
    Column("id", Text, primary_key=True),
    text("host"),
    text("device"),
    Column("uuid", Text, unique=True),
    Column("serial", Text, index=True),
    text("vendor_device"),
    text("facts"),
    text("supply"),
    integer("units"),
    text("state"),
    integer("generation"),
    time("first_seen_at"),
    text("state_why", server_default=""),
)
Index("gpu_host", gpu.c.host)

layout = Table(
    "layout",
    metadata,
    Column("gpu", Text, ForeignKey(gpu.c.id), primary_key=True),
    text("host"),
    text("layout"),
    text("goal"),
    text("operation"),
    Column("settled", Boolean, nullable=False),
)
