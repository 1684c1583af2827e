"""The table of flavours: sizes of VMs by name."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from vgpumgr.store.schema.columns import metadata, text, time

flavour = Table(
    "flavour",
    metadata,
    Column("name", Text, primary_key=True),
    text("spec"),
    time("set_at"),
    text("set_by"),
)
