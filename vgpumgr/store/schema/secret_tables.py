"""The table of secrets: who set which, and a keyed digest. Values are in files, never here."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from vgpumgr.store.schema.columns import metadata, text, time

secret = Table(
    "secret",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    text("digest"),
    time("set_at"),
    text("set_by"),
)
