"""Tables of VMs: requests, allocations, tickets, quotas, queue, pools, flavours, backups."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, Table, Text

from vgpumgr.store.schema.columns import (
    Moment,
    end,
    index_of_open,
    integer,
    metadata,
    of_tenant,
    optional,
    text,
    time,
)
from vgpumgr.store.schema.host_tables import gpu

# What an allocation takes from a GPU: memory slots, and the number of a virtual function.
MEMORY = "memory"
VF = "vf"

vm = Table(
    "vm",
    metadata,
    Column("id", Text, primary_key=True),
    text("name", index=True),
    text("host"),
    text("state"),
    Column("running", Boolean, nullable=False),
    integer("generation"),
    text("spec"),
    Column("numa_node", Integer),
    text("cpus"),
    text("volumes"),
    time("created_at"),
    end("deleted_at"),
    optional("moving_to"),
    text("definition", server_default=""),
    of_tenant(),
    optional("snapshots"),
    optional("guest"),
    text("nic_functions", server_default="[]"),
)
index_of_open(
    "vm_name_once",
    vm.c.name,
    end=vm.c.deleted_at,
)

allocation = Table(
    "allocation",
    metadata,
    Column("id", Text, primary_key=True),
    Column("vm_id", Text, ForeignKey(vm.c.id), nullable=False, index=True),
    text("vm"),
    text("host"),
    Column("gpu", Text, ForeignKey(gpu.c.id), nullable=False),
    text("profile"),
    text("framework"),
    text("device"),
    text("slots"),
    text("type_id"),
    text("parent"),
    text("companions"),
    text("state"),
    integer("generation"),
    time("created_at"),
    end("released_at"),
    text("extra", server_default="{}"),
)
index_of_open(
    "allocation_device_once",
    allocation.c.host,
    allocation.c.device,
    end=allocation.c.released_at,
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

request = Table(
    "request",
    metadata,
    Column("id", Integer, primary_key=True),
    time("at"),
    text("vm"),
    text("outcome"),
    text("spec"),
    text("reasons"),
    Column("vm_id", Text, ForeignKey(vm.c.id)),
    of_tenant(),
)


logoff_move = Table(
    "logoff_move",
    metadata,
    Column("id", Text, primary_key=True),
    Column("vm_id", Text, ForeignKey(vm.c.id), nullable=False),
    text("vm"),
    text("user_name"),
    text("host"),
    text("leaves"),
    text("takes"),
    text("why"),
    time("asked_at"),
    end("closed_at"),
    text("outcome"),
)
index_of_open(
    "logoff_move_once",
    logoff_move.c.vm_id,
    end=logoff_move.c.closed_at,
)


ticket = Table(
    "ticket",
    metadata,
    Column("id", Text, primary_key=True),
    Column("vm_id", Text, ForeignKey(vm.c.id), nullable=False),
    text("vm"),
    text("user"),
    text("machine"),
    text("key"),
    text("state"),
    time("asked_at"),
    text("address"),
    text("answer"),
    end("opened_at"),
    end("connected_at"),
    end("closed_at"),
    text("code"),
    text("why"),
    text("next"),
    text("uids", server_default=""),
    of_tenant(),
    text("kind", server_default="screen"),
    text("digest", server_default="", index=True),
    text("login", server_default=""),
    integer("generation", server_default="0"),
    end("expires_at"),
)
index_of_open(
    "ticket_open",
    ticket.c.asked_at,
    end=ticket.c.closed_at,
    unique=False,
)


# The generation is raised by whoever takes more: the row's lock is what two takers meet at.
quota = Table(
    "quota",
    metadata,
    Column("tenant", Text, primary_key=True),
    text("limits"),
    integer("generation"),
)

# The seats of an edition; the generation is raised by who takes more.
licence = Table(
    "licence",
    metadata,
    Column("edition", Text, primary_key=True),
    integer("seats"),
    integer("generation"),
)

# What an hour of a GPU costs, from a time on until the next row's.
price_book = Table(
    "price_book",
    metadata,
    Column("begins_at", Moment("begins_at"), primary_key=True, autoincrement=False),
    text("prices"),
    time("set_at"),
)

queue = Table(
    "queue",
    metadata,
    Column("id", Text, primary_key=True),
    text("name", index=True),
    text("spec"),
    text("state"),
    time("since"),
    end("started_at"),
    end("closed_at"),
    Column("vm_id", Text, ForeignKey(vm.c.id), index=True),
    integer("preempted"),
    text("why"),
    integer("generation"),
    of_tenant(),
)
index_of_open(
    "queue_name_once",
    queue.c.name,
    end=queue.c.closed_at,
)

# The generation is raised by whoever gives desktops to users, too: they meet at the pool's row.
pool = Table(
    "pool",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    text("spec"),
    optional("rollout"),
    Column("closing", Boolean, nullable=False),
    Column("leaving", Boolean, nullable=False),
    time("created_at"),
    end("closed_at"),
    integer("generation"),
    of_tenant(),
)

desktop = Table(
    "desktop",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, ForeignKey(pool.c.id), nullable=False, index=True),
    text("name", index=True),
    Column("vm_id", Text, ForeignKey(vm.c.id)),
    text("doing"),
    text("state"),
    text("image"),
    time("since"),
    text("host"),
    text("owner"),
    optional("session"),
    Column("stained", Boolean, nullable=False),
    integer("failures"),
    text("why"),
    end("closed_at"),
    integer("generation"),
)

pool_session = Table(
    "pool_session",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, ForeignKey(pool.c.id), nullable=False, index=True),
    Column("desktop", Text, ForeignKey(desktop.c.id), nullable=False),
    text("name"),
    text("user_name"),
    text("booking"),
    time("since"),
    text("why"),
    end("closed_at"),
)

pool_ask = Table(
    "pool_ask",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, ForeignKey(pool.c.id), nullable=False),
    text("user_name"),
    text("user_groups"),
    time("since"),
    end("closed_at"),
)

booking = Table(
    "booking",
    metadata,
    Column("id", Text, primary_key=True),
    text("user_group"),
    text("profile"),
    integer("count"),
    time("starts_at"),
    time("ends_at"),
    text("tenant"),
    end("closed_at"),
)

for _name, *_columns in (
    ("pool_name_once", pool.c.name),
    ("desktop_name_once", desktop.c.name),
    ("pool_session_once", pool_session.c.desktop),
    ("pool_ask_once", pool_ask.c.pool, pool_ask.c.user_name),
):
    index_of_open(_name, *_columns, end=_columns[0].table.c.closed_at)


flavour = Table(
    "flavour",
    metadata,
    Column("name", Text, primary_key=True),
    text("spec"),
    time("set_at"),
    text("set_by"),
)


# The referee: a VM has one row at most, and a user's disk one VM.
profile_disk = Table(
    "profile_disk",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("pool", Text, primary_key=True),
    Column("user_name", Text, primary_key=True),
    text("storage_pool"),
    text("volume"),
    Column("size_bytes", BigInteger, nullable=False),
    Column("keep", Boolean, nullable=False),
    Column("made", Boolean, nullable=False),
    Column("vm_id", Text, unique=True),
    integer("generation"),
)


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
