"""Every event of the trail in the categories of ECS (Elastic Common Schema)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vgpumgr.model.notification import NOTICE, NOTICES


class EventClass(NamedTuple):
    """``event.category``, ``event.type`` and ``event.outcome``, each one of ECS's words."""

    category: str
    type: str
    outcome: str = "success"


_MADE = EventClass("configuration", "creation")
_CHANGED = EventClass("configuration", "change")
_GONE = EventClass("configuration", "deletion")
_ASKED = EventClass("configuration", "info", "unknown")
_STARTED = EventClass("host", "start")
_ENDED = EventClass("host", "end")
_HOST = EventClass("host", "change")
_SEEN = EventClass("host", "info")
_FAILED = EventClass("host", "change", "failure")
_REFUSED = EventClass("driver", "change", "failure")
_SERVED = EventClass("driver", "change")
_SESSION_BEGUN = EventClass("session", "start")
_SESSION_ENDED = EventClass("session", "end")
_SESSION = EventClass("session", "info")

EVENT_CLASSES: Mapping[str, EventClass] = {
    "access.bound": EventClass("iam", "admin"),
    "access.login": EventClass("authentication", "start"),
    "access.login-ended": EventClass("authentication", "end"),
    "access.refused": EventClass("authentication", "start", "failure"),
    "access.token-created": EventClass("iam", "creation"),
    "access.token-revoked": EventClass("iam", "deletion"),
    "access.unbound": EventClass("iam", "admin"),
    "allocation.active": _CHANGED,
    "allocation.orphaned": _CHANGED,
    "allocation.released": _GONE,
    "allocation.reserved": _MADE,
    "backup.faulty": EventClass("configuration", "info", "failure"),
    "backup.found": _SEEN,
    "backup.gone": _GONE,
    "backup.leaving": _ASKED,
    "backup.making": _ASKED,
    "backup.target-deleted": _GONE,
    "backup.target-set": _CHANGED,
    "backup.there": _MADE,
    "backup.verified": _SEEN,
    "booking.cancelled": _GONE,
    "booking.made": _MADE,
    "desktop.closed": _GONE,
    "desktop.creating": _ASKED,
    "desktop.failed": _FAILED,
    "desktop.leaving": _ASKED,
    "desktop.lost": _FAILED,
    "desktop.ready": _STARTED,
    "desktop.shelved": _ENDED,
    "desktop.unknown": EventClass("host", "info", "unknown"),
    "epoch.raised": _CHANGED,
    "flavour.deleted": _GONE,
    "flavour.set": _CHANGED,
    "gpu.found": _SEEN,
    "gpu.health-degraded": _HOST,
    "gpu.health-healthy": _HOST,
    "gpu.health-lost": _FAILED,
    "gpu.health-quarantined": _HOST,
    "gpu.healthy": _HOST,
    "gpu.missing": _FAILED,
    "gpu.moved": _HOST,
    "gpu.quarantined": _HOST,
    "gpu.refused": _REFUSED,
    "gpu.served": _SERVED,
    "host.added": _MADE,
    "host.booted": _STARTED,
    "host.changed": _CHANGED,
    "host.cordoned": _CHANGED,
    "host.joining": _ASKED,
    "host.leaving": _ASKED,
    "host.refused": _REFUSED,
    "host.removed": _GONE,
    "host.served": _SERVED,
    "host.stayed": _CHANGED,
    "host.uncordoned": _CHANGED,
    "image.copy-gone": _GONE,
    "image.copy-importing": _ASKED,
    "image.copy-leaving": _ASKED,
    "image.copy-there": _MADE,
    "image.imported": _MADE,
    "image.retired": _CHANGED,
    "image.upload-begun": _MADE,
    "image.upload-discarded": _GONE,
    "layout.forgotten": _GONE,
    "layout.reserved": _ASKED,
    "layout.settled": _SERVED,
    "move.ended": _CHANGED,
    "move.waits": _ASKED,
    "operation.begun": EventClass("configuration", "info", "unknown"),
    "operation.done": _CHANGED,
    "operation.failed": EventClass("configuration", "change", "failure"),
    "operation.interrupted": EventClass("configuration", "info", "unknown"),
    "operation.partly": EventClass("configuration", "change", "failure"),
    "operation.running": EventClass("configuration", "info", "unknown"),
    "operation.undone": EventClass("configuration", "change", "failure"),
    "pool.ask-ended": _SESSION,
    "pool.asked": EventClass("session", "info", "unknown"),
    "pool.changed": _CHANGED,
    "pool.deleted": _GONE,
    "pool.made": _MADE,
    "profile.disk-attached": _CHANGED,
    "profile.disk-deleted": _GONE,
    "profile.disk-detached": _CHANGED,
    "calendar.removed": _GONE,
    "calendar.set": _CHANGED,
    "notification.removed": _GONE,
    "notification.set": _CHANGED,
    **{f"{NOTICE}{each}": _SEEN for each in NOTICES},
    "licence.deleted": _GONE,
    "licence.set": _CHANGED,
    "power.budget-removed": _GONE,
    "power.budget-set": _CHANGED,
    "power.capped": _CHANGED,
    "power.uncapped": _CHANGED,
    "price.removed": _GONE,
    "price.set": _CHANGED,
    "queue.cancelled": _GONE,
    "queue.deleted": _GONE,
    "queue.ended": _ENDED,
    "queue.running": _STARTED,
    "queue.waiting": _ASKED,
    "quota.deleted": EventClass("iam", "deletion"),
    "quota.set": EventClass("iam", "change"),
    "secret.removed": _GONE,
    "secret.set": _CHANGED,
    "session.begun": _SESSION_BEGUN,
    "session.ended": _SESSION_ENDED,
    "step.undone": EventClass("host", "change", "failure"),
    "store.frozen": _CHANGED,
    "store.moved": _CHANGED,
    "store.restored": _CHANGED,
    "store.thawed": _CHANGED,
    "task.done": _HOST,
    "task.failed": _FAILED,
    "task.undone": _FAILED,
    "ticket.asked": EventClass("session", "info", "unknown"),
    "ticket.closed": _SESSION_ENDED,
    "ticket.connected": _SESSION_BEGUN,
    "ticket.open": _SESSION,
    "vm.active": _HOST,
    "vm.adopted": _MADE,
    "vm.changed": _CHANGED,
    "vm.deleted": _GONE,
    "vm.deleting": _ASKED,
    "vm.guest-failed": _FAILED,
    "vm.guest-ready": _STARTED,
    "vm.guest-starting": _ASKED,
    "vm.guest-unknown": EventClass("host", "info", "unknown"),
    "vm.migrating": _HOST,
    "vm.moved": _HOST,
    "vm.reimaged": _CHANGED,
    "vm.renamed": _CHANGED,
    "vm.reserved": _MADE,
    "vm.seed-emptied": _CHANGED,
    "vm.shelved": _ENDED,
    "vm.started": _STARTED,
    "vm.stayed": _FAILED,
    "vm.stopped": _ENDED,
    "webhook.added": _MADE,
    "webhook.paused": _CHANGED,
    "webhook.removed": _GONE,
    "webhook.resumed": _CHANGED,
    "webhook.rotated": _CHANGED,
}
UNKNOWN = EventClass("configuration", "info", "unknown")
"""Of an event that a later vgpumgr wrote."""
