"""The table of webhooks. Their secrets are in files of the controllers."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from vgpumgr.store.schema.columns import end, integer, metadata, of_tenant, text, time

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
