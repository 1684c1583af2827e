"""Webhooks: where records of the trail are sent to as they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vgpumgr.model.role_binding import EVERY_TENANT

MOST_WEBHOOKS, MOST_OF_TENANT = 64, 8
"""In the fleet, and of one tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Records of a tenant's things (``*``: of all) go to ``url``, each signed.

    ``events`` are kinds of records, or beginnings of them; without any all are sent. ``cursor`` is
    the ``seq`` of the last record that is done with. While ``paused_at`` is set nothing is sent and
    ``why`` says the reason; otherwise ``why`` is what became of the last of ``failures`` attempts
    at the next record, and another one is made at ``retry_at``. Times are Unix seconds. The secret
    that signs is in a file of the controller, never here.
    """

    id: str
    name: str
    url: str
    tenant: str = EVERY_TENANT
    events: tuple[str, ...] = ()
    cursor: int = 0
    failures: int = 0
    retry_at: float | None = None
    paused_at: float | None = None
    why: str = ""
    delivered_at: float | None = None
    created_at: float = 0.0
    created_by: str = ""

    def takes(self, event: str) -> bool:
        """Are records of that kind sent?"""
        return not self.events or event.startswith(self.events)


class WebhookLedger(Protocol):
    """Webhooks in the ledger. Every method is one transaction."""

    def webhooks(self) -> tuple[Webhook, ...]:
        """Every webhook, by name."""

    def add_webhook(self, webhook: Webhook) -> None:
        """Enter one; its cursor is the end of the trail. NameTaken where there is one of that
        name, Conflict where there are too many.
        """

    def remove_webhook(self, webhook_id: str) -> None:
        """Forget one; NotFound where there is none."""

    def pause_webhook(self, webhook_id: str, why: str) -> None:
        """Send nothing more to it; one that is paused stays so, with its reason."""

    def resume_webhook(self, webhook_id: str) -> None:
        """Send to it again, at once and from where it was."""

    def webhook_rotated(self, webhook_id: str) -> None:
        """Tell in the trail that it has another secret; NotFound where there is none."""

    def webhook_delivered(self, webhook_id: str, cursor: int, at: float | None) -> bool:
        """Done with records up to ``cursor``, the last of which it took at that time (None: it was
        sent none of them); False where it is paused or gone.
        """

    def webhook_failed(self, webhook_id: str, why: str, retry_at: float) -> None:
        """It did not take the next record; another attempt is due at that time."""
