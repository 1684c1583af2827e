"""What `doctor` says of webhooks: which are paused or fail, and whose secrets are not here."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.app.config import Config
from vgpumgr.app.webhooks.delivery_schedule import claim_of, webhook_secrets
from vgpumgr.model.examination import CheckOutcome, Finding
from vgpumgr.model.formats import counted
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.webhook import Webhook


def webhook_findings(ledger: Ledger, config: Config) -> Iterator[Finding]:
    """A finding for each webhook that is sent nothing; one line where all is well."""
    webhooks = ledger.webhooks()
    if not webhooks:
        return
    secrets = webhook_secrets(config)
    found = [
        _finding(each, text, mark)
        for each in webhooks
        for text, mark in _faults(each, secrets.has(each.id) or ledger.is_claimed(claim_of(each)))
    ]
    yield from found
    if not found:
        text = f"{counted(len(webhooks), 'webhook')}, none fails"
        yield Finding(check="webhooks", mark=CheckOutcome.OK, text=text)


def _faults(webhook: Webhook, can_sign: bool) -> Iterator[tuple[str, CheckOutcome]]:
    if webhook.paused_at is not None:
        yield f"paused: {webhook.why}", CheckOutcome.WARN
    elif webhook.failures:
        tried = counted(webhook.failures, "attempt")
        yield f"{tried} failed: {webhook.why}", CheckOutcome.WARN
    if not can_sign:
        yield "its secret is not on this controller", CheckOutcome.BAD


def _finding(webhook: Webhook, text: str, mark: CheckOutcome) -> Finding:
    next = f"vgpumgr webhook show {webhook.name}"
    return Finding(check=f"webhook {webhook.name}", mark=mark, text=text, next=next)
