"""The tables. One schema for SQLite and PostgreSQL.

Values that are only ever read whole (a VM's spec, a host's facts, a step's arguments) are compact
JSON text; what is compared, joined or kept unique has a column. Rows of requests, VMs and
allocations are closed by a time, never deleted; ``unit`` rows live as long as they are held.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

SCHEMA_VERSION = 4

# What an allocation takes from a GPU: memory slots, and the number of a virtual function.
MEMORY = "memory"
VF = "vf"

metadata = MetaData()


def _text(name: str, *, server_default: str | None = None, index: bool = False) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=server_default, index=index)


def _optional(name: str) -> Column[str | None]:
    return Column(name, Text)


def _integer(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _time(name: str) -> Column[float]:
    """Unix seconds."""
    return Column(name, Float(53), nullable=False)


def _end(name: str) -> Column[float | None]:
    """Unix seconds; NULL while the row is open."""
    return Column(name, Float(53))


meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True),
    _integer("schema_version"),
    _text("fleet_id"),
    _integer("epoch"),
    _text("frozen_why", server_default=""),
    _end("frozen_at"),
)

host = Table(
    "host",
    metadata,
    Column("id", Integer, primary_key=True),
    _text("name"),
    _text("address"),
    _text("settings"),
    _integer("generation"),
    _optional("facts"),
    _text("supply"),
    _end("observed_at"),
    _text("last_error"),
    _end("removed_at"),
    _end("due_at"),
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
    _text("host"),
    _text("device"),
    Column("uuid", Text, unique=True),
    Column("serial", Text, index=True),
    _text("vendor_device"),
    _text("facts"),
    _text("supply"),
    _integer("units"),
    _text("state"),
    _integer("generation"),
    _time("first_seen_at"),
    _text("state_why", server_default=""),
)
Index("gpu_host", gpu.c.host)

vm = Table(
    "vm",
    metadata,
    Column("id", Text, primary_key=True),
    _text("name"),
    _text("host"),
    _text("state"),
    Column("running", Boolean, nullable=False),
    _integer("generation"),
    _text("spec"),
    Column("numa_node", Integer),
    _text("cpus"),
    _text("volumes"),
    _time("created_at"),
    _end("deleted_at"),
    _optional("moving_to"),
    _text("definition", server_default=""),
)
Index(
    "vm_name_once",
    vm.c.name,
    unique=True,
    sqlite_where=vm.c.deleted_at.is_(None),
    postgresql_where=vm.c.deleted_at.is_(None),
)

allocation = Table(
    "allocation",
    metadata,
    Column("id", Text, primary_key=True),
    Column("vm_id", Text, ForeignKey(vm.c.id), nullable=False, index=True),
    _text("vm"),
    _text("host"),
    Column("gpu", Text, ForeignKey(gpu.c.id), nullable=False),
    _text("profile"),
    _text("framework"),
    _text("device"),
    _text("slots"),
    _text("type_id"),
    _text("parent"),
    _text("companions"),
    _text("state"),
    _integer("generation"),
    _time("created_at"),
    _end("released_at"),
    _text("extra", server_default="{}"),
)
Index(
    "allocation_device_once",
    allocation.c.host,
    allocation.c.device,
    unique=True,
    sqlite_where=allocation.c.released_at.is_(None),
    postgresql_where=allocation.c.released_at.is_(None),
)

# The referee: a unit has one row, so it has one owner.
unit = Table(
    "unit",
    metadata,
    Column("gpu_id", Text, ForeignKey(gpu.c.id), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("allocation_id", Text, ForeignKey(allocation.c.id), nullable=False, index=True),
    sqlite_with_rowid=False,
)

layout = Table(
    "layout",
    metadata,
    Column("gpu", Text, ForeignKey(gpu.c.id), primary_key=True),
    _text("host"),
    _text("layout"),
    _text("goal"),
    _text("operation"),
    Column("settled", Boolean, nullable=False),
)

request = Table(
    "request",
    metadata,
    Column("id", Integer, primary_key=True),
    _time("at"),
    _text("vm"),
    _text("outcome"),
    _text("spec"),
    _text("reasons"),
    Column("vm_id", Text, ForeignKey(vm.c.id)),
)

operation = Table(
    "operation",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    _text("kind"),
    _text("state"),
    _integer("epoch"),
    _time("started_at"),
    _end("ended_at"),
    _text("started_by"),
    _text("summary"),
    _text("worker", server_default=""),
)

task = Table(
    "task",
    metadata,
    Column("id", Text, primary_key=True),
    Column("operation", Text, ForeignKey(operation.c.id), nullable=False, index=True),
    _integer("position"),
    _text("vm_id"),
    _text("vm"),
    _text("host"),
    _text("verb"),
    _text("state"),
    _text("error"),
    _text("peer", server_default=""),
)

step = Table(
    "step",
    metadata,
    Column("task", Text, ForeignKey(task.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("args"),
    _text("state"),
    _text("detail"),
    _text("host", server_default=""),
)

# One row per change of state, written in its transaction and never changed.
audit = Table(
    "audit",
    metadata,
    Column("seq", Integer, primary_key=True),
    _time("at"),
    _text("by"),
    _text("event"),
    _text("operation", index=True),
    _text("task"),
    _text("vm", index=True),
    _text("host", index=True),
    _text("gpu"),
    _text("allocation"),
    _text("profile"),
    _text("device"),
    _text("units"),
    Column("before", Integer),
    Column("after", Integer),
    _text("detail"),
)
