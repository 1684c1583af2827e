"""Tables of operations with their tasks and steps, and of the audit trail."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text

from vgpumgr.store.schema.columns import end, integer, metadata, of_tenant, text, time

operation = Table(
    "operation",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    text("kind"),
    text("state"),
    integer("epoch"),
    time("started_at"),
    end("ended_at"),
    text("started_by"),
    text("summary"),
    text("worker", server_default=""),
    end("left_until"),
    text("tenant", server_default=""),
    text("method", server_default=""),
    of_tenant("vm_tenant"),
)

task = Table(
    "task",
    metadata,
    Column("id", Text, primary_key=True),
    Column("operation", Text, ForeignKey(operation.c.id), nullable=False, index=True),
    integer("position"),
    text("vm_id"),
    text("vm"),
    text("host"),
    text("verb"),
    text("state"),
    text("error"),
    text("peer", server_default=""),
)

step = Table(
    "step",
    metadata,
    Column("task", Text, ForeignKey(task.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    text("kind"),
    text("args"),
    text("state"),
    text("detail"),
    text("host", server_default=""),
)

# A request over HTTP that changed something, written with its first change.
api_request = Table(
    "api_request",
    metadata,
    Column("user_name", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    text("digest"),
    text("endpoint"),
    text("attempt"),
    text("operation", index=True),
    time("begun_at"),
    end("ended_at"),
    text("answer", server_default="{}"),
)

# One row per change of state, written in its transaction and never changed.
audit = Table(
    "audit",
    metadata,
    Column("seq", Integer, primary_key=True),
    time("at"),
    text("by"),
    text("event"),
    text("operation"),
    text("task"),
    text("vm", index=True),
    text("host", index=True),
    text("gpu"),
    text("allocation"),
    text("profile"),
    text("device"),
    text("units"),
    Column("before", Integer),
    Column("after", Integer),
    text("detail"),
    text("tenant", server_default=""),
    text("method", server_default=""),
    text("address", server_default=""),
    text("credential", server_default=""),
    text("consumption", server_default="{}"),
)
# Of a record to the one with which its operation began.
Index("audit_operation_event", audit.c.operation, audit.c.event)
