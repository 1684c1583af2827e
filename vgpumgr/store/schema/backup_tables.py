"""The tables of VMs' backups: where they go, and which there are."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Table, Text

from vgpumgr.store.schema.columns import end, index_of_open, metadata, of_tenant, text, time

backup_target = Table(
    "backup_target",
    metadata,
    Column("name", Text, primary_key=True),
    text("spec"),
    time("set_at"),
    text("set_by"),
)

vm_backup = Table(
    "vm_backup",
    metadata,
    Column("id", Text, primary_key=True),
    text("vm_id"),
    text("vm"),
    of_tenant(),
    text("target"),
    text("pool"),
    text("host"),
    time("created_at"),
    text("moment"),
    text("state"),
    Column("scheduled", Boolean, nullable=False),
    time("verified_at"),
    text("fault"),
    text("task", index=True),
    text("parent"),
    end("gone_at"),
)
index_of_open("vm_backup_open", vm_backup.c.created_at, end=vm_backup.c.gone_at, unique=False)
