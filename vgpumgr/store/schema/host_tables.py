"""Tables of the ledger itself, hosts, GPUs, layouts, refusals, and disk images."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
)

from vgpumgr.store.schema.columns import end, index_of_open, integer, metadata, optional, text, time

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
    index_of_open(f"host_{_column.name}_once", _column, end=host.c.removed_at)

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
    text("health", server_default=""),
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
index_of_open(
    "refusal_open",
    refusal.c.at,
    end=refusal.c.closed_at,
    unique=False,
)


image = Table(
    "image",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    text("version"),
    text("format"),
    Column("virtual_bytes", BigInteger, nullable=False),
    Column("file_bytes", BigInteger, nullable=False),
    text("sha256"),
    text("source"),
    time("created_at"),
    end("retired_at"),
)
Index("image_version_once", image.c.name, image.c.version, unique=True)

image_copy = Table(
    "image_copy",
    metadata,
    Column("id", Text, primary_key=True),
    Column("image", Text, ForeignKey(image.c.id), nullable=False),
    text("host"),
    text("pool"),
    text("state"),
    time("verified_at"),
    end("gone_at"),
)
index_of_open(
    "image_copy_once",
    image_copy.c.image,
    image_copy.c.host,
    image_copy.c.pool,
    end=image_copy.c.gone_at,
)


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
