"""The tables. One schema for SQLite and PostgreSQL.

Values that are only ever read whole (a VM's spec, a host's facts, a step's arguments) are compact
JSON text; what is compared, joined or kept unique has a column. Rows of requests, VMs,
allocations, refusals, the queue and pools are closed by a time, never deleted; ``unit`` rows live
as long as they are held.
"""

from vgpumgr.store.schema.columns import metadata
from vgpumgr.store.schema.fleet import gpu, host, layout, meta
from vgpumgr.store.schema.images import image, image_copy
from vgpumgr.store.schema.journal import audit, operation, step, task
from vgpumgr.store.schema.moves import logoff_move
from vgpumgr.store.schema.pools import booking, desktop, pool, pool_ask, pool_session
from vgpumgr.store.schema.promises import MEMORY, VF, allocation, request, unit, vm
from vgpumgr.store.schema.queue import queue, quota
from vgpumgr.store.schema.refusals import refusal
from vgpumgr.store.schema.tickets import ticket

SCHEMA_VERSION = 11

__all__ = [
    "MEMORY",
    "SCHEMA_VERSION",
    "VF",
    "allocation",
    "audit",
    "booking",
    "desktop",
    "gpu",
    "host",
    "image",
    "image_copy",
    "layout",
    "logoff_move",
    "meta",
    "metadata",
    "operation",
    "pool",
    "pool_ask",
    "pool_session",
    "queue",
    "quota",
    "refusal",
    "request",
    "step",
    "task",
    "ticket",
    "unit",
    "vm",
]
