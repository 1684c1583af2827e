"""The tables of power: the budgets, and the GPUs that are held below what they may have."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from vgpumgr.store.schema.columns import metadata, text, time

power_budget = Table(
    "power_budget",
    metadata,
    Column("name", Text, primary_key=True),
    text("spec"),
    time("set_at"),
)

power_cap = Table(
    "power_cap",
    metadata,
    Column("gpu", Text, primary_key=True),
    text("host"),
    text("held"),
    time("since"),
)
