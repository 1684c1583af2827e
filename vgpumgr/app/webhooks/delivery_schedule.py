"""Webhooks are sent what is new: by `serve`, to each by one controller, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from vgpumgr.app.config import Config
from vgpumgr.app.webhooks.delivery import PAGE, DeliveryPace, MessageSender, WebhookDelivery
from vgpumgr.app.webhooks.receiver_address import ReceiverRules
from vgpumgr.app.webhooks.secret_files import WebhookSecrets
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import ClaimLost, VgpumgrError
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.webhook import Webhook

# How often the end of the trail is looked at; how long a failure of the ledger rests.
_BEAT_S, _AGAIN_S = 0.5, 10.0


def webhook_secrets(config: Config) -> WebhookSecrets:
    """The secrets that this controller has."""
    return WebhookSecrets(config.state_dir / "webhook-secrets")


def message_sender(ledger: Ledger, config: Config, timeout_s: float = 0.0) -> MessageSender:
    """What sends records of the ledger as the settings permit."""
    timeout_s = timeout_s or DeliveryPace().timeout_s
    rules = ReceiverRules(config.webhook_networks)
    return MessageSender(ledger, webhook_secrets(config), rules, timeout_s)


def claim_of(webhook: Webhook) -> str:
    """The name that the one controller claims which sends to it."""
    return f"webhook:{webhook.id}"


@contextmanager
def scheduled_deliveries(
    ledger: Ledger, config: Config, emit: Emit, pace: DeliveryPace | None = None
) -> Iterator[None]:
    """Webhooks are sent what is new while the block lasts."""
    pace = pace or DeliveryPace()
    sender = message_sender(ledger, config, pace.timeout_s)
    schedule = DeliverySchedule(sender, pace, emit)
    thread = threading.Thread(target=carried(schedule.run), name="vgpumgr-webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        schedule.end()
        thread.join(pace.timeout_s + 1.0)


class DeliverySchedule:
    """Looks for webhooks that have not had the newest records, and begins a round for each; one
    whose receiver is slow keeps none of the others waiting.
    """

    def __init__(self, sender: MessageSender, pace: DeliveryPace, emit: Emit) -> None:
        self._sender = sender
        self._ledger = sender.ledger
        self._pace = pace
        self._emit = emit
        self._ending = threading.Event()
        self._known: dict[str, WebhookDelivery] = {}
        self._rounds: dict[str, threading.Thread] = {}
        self._failing: dict[str, str] = {}
        self._seen = -1

    def end(self) -> None:
        """Send nothing more than what is being sent."""
        self._ending.set()

    def run(self) -> None:
        """Deliver until :meth:`end` is called or the ledger's claims are lost."""
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            wait_s = _BEAT_S
            try:
                self.look()
            except ClaimLost:
                return  # told by who else works on it
            except VgpumgrError:  # the ledger is away, which others tell
                wait_s = _AGAIN_S
            except Exception as defect:
                self._tell("", "to webhooks", f"{type(defect).__name__}: {defect}")
                wait_s = _AGAIN_S
        self.finish()

    def look(self) -> None:
        """Begin a round for each webhook that is due one."""
        webhooks = self._ledger.webhooks()
        self._forget({each.id for each in webhooks})
        if not webhooks:
            return
        end = self._ledger.trail_since(None).end
        since, kinds = self._seen, self._kinds_up_to(end)
        for each in webhooks:
            if self._is_due(each, end) and self._ledger.claim(claim_of(each)):
                known = self._delivery(each)
                is_none = kinds is not None and not any(map(each.takes, kinds))
                if is_none and known.reached(each) >= since:
                    known.pass_over(each, end)
                else:
                    self._begin(each)

    def _kinds_up_to(self, end: int) -> frozenset[str] | None:
        """The kinds of the records since the last look; None where they are too many."""
        since, self._seen = self._seen, end
        if since < 0:
            return None
        found = self._ledger.audit_after(since, PAGE) if end > since else ()
        return frozenset(each.event for each in found) if len(found) < PAGE else None

    def _begin(self, webhook: Webhook) -> None:
        work = carried(self._round)
        thread = threading.Thread(target=work, args=(webhook,), name="webhook", daemon=True)
        self._rounds[webhook.id] = thread
        thread.start()

    def _delivery(self, webhook: Webhook) -> WebhookDelivery:
        if webhook.id not in self._known:
            made = WebhookDelivery(self._sender, self._pace, self._emit, self._ending)
            self._known[webhook.id] = made
        return self._known[webhook.id]

    def finish(self) -> None:
        """Wait until what is being sent has ended."""
        until = time.monotonic() + self._pace.timeout_s
        for thread in list(self._rounds.values()):
            thread.join(max(0.0, until - time.monotonic()))

    def _is_due(self, webhook: Webhook, end: int) -> bool:
        running = self._rounds.get(webhook.id)
        if webhook.paused_at is not None or (running is not None and running.is_alive()):
            return False
        if webhook.retry_at is not None and webhook.retry_at > time.time():
            return False
        known = self._known.get(webhook.id)
        reached = known.reached(webhook) if known is not None else webhook.cursor
        return reached < end and self._has_secret(webhook)

    def _has_secret(self, webhook: Webhook) -> bool:
        """Another controller may have what this one has not."""
        if self._sender.secrets.has(webhook.id):
            return True
        self._ledger.release(claim_of(webhook))
        if not self._ledger.is_claimed(claim_of(webhook)):
            self._tell_of(webhook, "its secret is not on this controller")
        return False

    def _round(self, webhook: Webhook) -> None:
        try:
            self._known[webhook.id].round(webhook)
            self._failing.pop(webhook.id, None)
        except ClaimLost:
            self._ending.set()
        except VgpumgrError as error:
            self._tell_of(webhook, f"{error.message}: {error.why}")
            self._ending.wait(_BEAT_S)
        except Exception as defect:
            self._tell_of(webhook, f"{type(defect).__name__}: {defect}")
            self._ending.wait(_AGAIN_S)

    def _forget(self, there: set[str]) -> None:
        """Let go of webhooks that were removed."""
        for gone in self._known.keys() - there:
            if gone not in self._rounds or not self._rounds[gone].is_alive():
                del self._known[gone]
                self._rounds.pop(gone, None)
                self._failing.pop(gone, None)
                self._ledger.release(f"webhook:{gone}")

    def _tell_of(self, webhook: Webhook, why: str) -> None:
        self._tell(webhook.id, f"to webhook {webhook.name}", why)

    def _tell(self, key: str, where: str, why: str) -> None:
        """Once, until it goes well again."""
        if self._failing.get(key) != why:
            self._failing[key] = why
            text, next = f"nothing is sent {where}: {why}", "vgpumgr webhook list"
            self._emit(ControllerEvent(kind=EventKind.WEBHOOK_FAILED, text=text, next=next))
