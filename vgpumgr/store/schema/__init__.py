"""The tables. One schema for SQLite and PostgreSQL.

Values that are only ever read whole (a VM's spec, a host's facts, a step's arguments) are compact
JSON text; what is compared, joined or kept unique has a column. Rows of requests, VMs,
allocations, refusals, the queue and pools are closed by a time, never deleted; ``unit`` rows live
as long as they are held.
"""

from vgpumgr.store.schema.access_tables import api_token, login_session, role_binding, secret
from vgpumgr.store.schema.columns import metadata
from vgpumgr.store.schema.host_tables import (
    gpu,
    host,
    image,
    image_copy,
    layout,
    meta,
    power_budget,
    power_cap,
    refusal,
)
from vgpumgr.store.schema.operation_tables import api_request, audit, operation, step, task
from vgpumgr.store.schema.trail_tables import calendar, checkpoint, notification, seal, webhook
from vgpumgr.store.schema.vm_tables import (
    MEMORY,
    VF,
    allocation,
    backup_target,
    booking,
    desktop,
    flavour,
    licence,
    logoff_move,
    pool,
    pool_ask,
    pool_session,
    price_book,
    profile_disk,
    queue,
    quota,
    request,
    ticket,
    unit,
    vm,
    vm_backup,
)

SCHEMA_VERSION = 31

__all__ = [
    "MEMORY",
    "SCHEMA_VERSION",
    "VF",
    "allocation",
    "api_request",
    "api_token",
    "audit",
    "backup_target",
    "booking",
    "calendar",
    "checkpoint",
    "desktop",
    "flavour",
    "gpu",
    "host",
    "image",
    "image_copy",
    "layout",
    "licence",
    "login_session",
    "logoff_move",
    "meta",
    "metadata",
    "notification",
    "operation",
    "pool",
    "pool_ask",
    "pool_session",
    "power_budget",
    "power_cap",
    "price_book",
    "profile_disk",
    "queue",
    "quota",
    "refusal",
    "request",
    "role_binding",
    "seal",
    "secret",
    "step",
    "task",
    "ticket",
    "unit",
    "vm",
    "vm_backup",
    "webhook",
]
