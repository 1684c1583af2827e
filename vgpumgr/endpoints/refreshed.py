"""Hosts probed before their state is told, and what is said of hosts that did not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vgpumgr.model.errors import PartlyDone

if TYPE_CHECKING:
    from vgpumgr.endpoints.call_context import CallContext


def refresh(context: CallContext, hosts: Iterable[str] = ()) -> PartlyDone | None:
    """Probe these hosts (all without names); the error where some could not be read, which says
    why to who sees all tenants.
    """
    app = context.app
    if not app.ledger.hosts():
        return None
    failed = app.engine.refresh(hosts).failed
    if not context.scope.is_all:
        return unread_error(tuple(sorted(failed)))
    return unread_error(tuple(f"{name}: {error.message}" for name, error in sorted(failed.items())))


def unread_error(unread: tuple[str, ...]) -> PartlyDone | None:
    """What is told holds for the other hosts; None where all could be read."""
    if not unread:
        return None
    return PartlyDone(
        f"{len(unread)} {'host' if len(unread) == 1 else 'hosts'} could not be read",
        why="; ".join(unread[:5]),
        next="vgpumgr doctor",
    )
