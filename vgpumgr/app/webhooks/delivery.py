"""Delivery to one webhook: the records that are new, in order, one after the other."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

from vgpumgr.app.webhooks import receiver
from vgpumgr.app.webhooks.receiver import NotTaken
from vgpumgr.app.webhooks.receiver_address import ReceiverRules
from vgpumgr.app.webhooks.secret_files import WebhookSecrets
from vgpumgr.app.webhooks.signed_message import signed_headers
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.retry_backoff import backed_off
from vgpumgr.model.formats import counted
from vgpumgr.model.history import AuditRecord, record_json
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.role_binding import Scope
from vgpumgr.model.webhook import Webhook

PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPace:
    """An attempt takes ``timeout_s`` seconds at most; after one that failed the next is made
    ``first_s`` later, then after twice as long each time, up to ``longest_s``. After ``most`` that
    failed the webhook is paused. Records that were taken are written down every ``kept_s``, and
    other ones every ``passed_s``.
    """

    timeout_s: float = receiver.TIMEOUT_S
    first_s: float = 5.0
    longest_s: float = 3600.0
    most: int = 30
    kept_s: float = 1.0
    passed_s: float = 30.0

    def pause(self, failures: int) -> float:
        """How long to wait after a number of failures: chance keeps webhooks apart."""
        whole = backed_off(failures, self.first_s, self.longest_s)
        return whole * random.uniform(0.5, 1.0)  # noqa: S311


@dataclass(frozen=True, slots=True)
class MessageSender:
    """Sends records of one ledger, signed with the secrets of this controller."""

    ledger: Ledger
    secrets: WebhookSecrets
    rules: ReceiverRules
    timeout_s: float = receiver.TIMEOUT_S

    def send(self, webhook: Webhook, record: AuditRecord, mark: str = "") -> int:
        """The status of its success; NotTaken otherwise. A record has the same id at every
        attempt; ``mark`` makes it that of a message of its own.
        """
        origin = self.ledger.trail_origin().replace("/", "-")
        return self.post(webhook, record_json(record), f"{origin}-{mark or record.seq}")

    def post(self, webhook: Webhook, text: str, message: str) -> int:
        """The same for any text, as the message of that id."""
        body, now = text.encode(), time.time()
        headers = signed_headers(self.secrets.keys(webhook.id, now), message, now, body)
        return receiver.post(self.rules, webhook.url, body, headers, self.timeout_s)


class WebhookDelivery:
    """Delivery to one webhook, as far as this process has come with it."""

    def __init__(
        self, sender: MessageSender, pace: DeliveryPace, emit: Emit, ending: threading.Event
    ) -> None:
        self._sender = sender
        self._ledger = sender.ledger
        self._pace = pace
        self._emit = emit
        self._ending = ending
        self._cursor = 0
        self._kept_at = 0.0
        self._taken_at: float | None = None
        self._took = False

    def reached(self, webhook: Webhook) -> int:
        """The record up to which all is done with."""
        return max(self._cursor, webhook.cursor)

    def pass_over(self, webhook: Webhook, end: int) -> None:
        """Nothing up to that record is for it."""
        self._cursor = max(self.reached(webhook), end)
        if self._is_due(self._pace.passed_s):
            self._keep(webhook)

    def round(self, webhook: Webhook) -> None:
        """Send what is new, until there is no more, an attempt fails, or nothing more may be
        sent.
        """
        self._cursor, self._took = self.reached(webhook), False
        fault: NotTaken | None = None
        try:
            self._deliver(webhook)
        except NotTaken as error:
            fault = error
        finally:
            if self._taken_at or self._is_due(self._pace.passed_s):
                self._keep(webhook)
        if fault is not None:
            self._failed(webhook, fault)

    def _deliver(self, webhook: Webhook) -> None:
        reads = self._ledger.within(Scope.of(webhook.tenant))
        while not self._ending.is_set():
            end = self._ledger.trail_since(None).end
            page = reads.audit_after(self._cursor, PAGE)
            for record in page:
                if webhook.takes(record.event):
                    if self._ending.is_set():
                        return
                    self._sender.send(webhook, record)
                    self._taken_at, self._took = time.time(), True
                self._cursor = record.seq
                due = self._taken_at and self._is_due(self._pace.kept_s)
                if due and not self._keep(webhook):
                    return
            if len(page) < PAGE:
                self._cursor = max(self._cursor, end)
                return

    def _is_due(self, every_s: float) -> bool:
        return time.monotonic() - self._kept_at >= every_s

    def _keep(self, webhook: Webhook) -> bool:
        """False where it was paused, or removed."""
        at, self._taken_at = self._taken_at, None
        self._kept_at = time.monotonic()
        return self._ledger.webhook_delivered(webhook.id, self._cursor, at)

    def _failed(self, webhook: Webhook, fault: NotTaken) -> None:
        failures = 1 if self._took else webhook.failures + 1
        if failures == 1:
            self._tell(EventKind.WEBHOOK_FAILED, f"webhook {webhook.name} is tried again: {fault}")
        now = time.time()
        self._ledger.webhook_failed(webhook.id, str(fault), now + self._pace.pause(failures))
        if failures >= self._pace.most or fault.status == receiver.GONE:
            tried = counted(failures, "attempt")
            why = f"{tried} failed, the last with: {fault}"
            self._ledger.pause_webhook(webhook.id, why)
            text = f"webhook {webhook.name} is paused: {why}"
            next = f"vgpumgr webhook resume {webhook.name}"
            self._tell(EventKind.WEBHOOK_PAUSED, text, next)

    def _tell(self, kind: EventKind, text: str, next: str = "") -> None:
        self._emit(ControllerEvent(kind=kind, text=text, next=next))
