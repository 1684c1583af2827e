"""ETags: how a host, VM, pool, quota or secret is now, in a text that each change makes another."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.model.codec import dump
from vgpumgr.model.errors import NotFound


def _quoted(text: object) -> str:
    return f'"{text}"'


def host_tag(context: CallContext, asked: Any) -> str:
    """By the host's generation."""
    return _quoted(context.reads.host(asked.name).generation)


def vm_tag(context: CallContext, asked: Any) -> str:
    """By the VM's generation."""
    return _quoted(context.reads.vm(asked.name).generation)


def pool_tag(context: CallContext, asked: Any) -> str:
    """By the pool's generation."""
    return _quoted(context.reads.pool(asked.name).generation)


def quota_tag(context: CallContext, asked: Any) -> str:
    """By what the quota says: it has no generation. NotFound for a tenant without one."""
    for quota in context.reads.quotas():
        if quota.tenant == asked.tenant:
            return _quoted(sha256(dump(quota).encode()).hexdigest()[:16])
    raise NotFound(f"{asked.tenant} has no quota", next="vgpumgr quota list")


def secret_tag(context: CallContext, asked: Any) -> str:
    """By its keyed digest and when it was set. NotFound for one of which the ledger knows nothing,
    or that is not the caller's to see.
    """
    for each in context.reads.secrets():
        if (each.tenant, each.name) == (asked.tenant, asked.name):
            return _quoted(sha256(dump(each).encode()).hexdigest()[:16])
    raise NotFound(f"no secret {asked.name}", next="vgpumgr secret list")
