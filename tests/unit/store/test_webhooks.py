"""Webhooks in the ledger, on both stores."""

from __future__ import annotations

import pytest

from tests.unit.store.values import fleet
from vgpumgr.model.errors import Conflict, NameTaken, NotFound
from vgpumgr.model.webhook import MOST_OF_TENANT, MOST_WEBHOOKS, Webhook

AT = 100_000
"""Beyond the end of every trail here."""


def hook(name: str, tenant: str = "blue", **fields: object) -> Webhook:
    return Webhook(
        **{"id": f"id-{name}", "name": name, "tenant": tenant, "url": "https://w.example.org/p"}
        | fields
    )


def test_one_is_kept_as_it_was_added_and_begins_at_the_end_of_the_trail(url: str) -> None:
    ledger = fleet(url)
    ledger.add_webhook(hook("w", events=("vm.", "gpu.")))
    [found] = ledger.webhooks()
    assert (found.events, found.tenant, found.failures) == (("vm.", "gpu."), "blue", 0)
    assert found.cursor == ledger.trail_since(None).end
    assert found.created_by == ledger.audit(limit=1)[0].by
    with pytest.raises(NameTaken):
        ledger.add_webhook(hook("w", "red", id="other"))


def test_their_number_is_limited_in_a_tenant_and_in_the_fleet(url: str) -> None:
    ledger = fleet(url)
    for number in range(MOST_WEBHOOKS):
        ledger.add_webhook(hook(f"w-{number}", f"t-{number // MOST_OF_TENANT}"))
        if number == MOST_OF_TENANT - 1:
            with pytest.raises(Conflict, match="tenant t-0"):
                ledger.add_webhook(hook("more", "t-0"))
    with pytest.raises(Conflict, match="the fleet"):
        ledger.add_webhook(hook("more", "another"))


def test_failures_are_counted_until_a_record_is_taken(url: str) -> None:
    ledger = fleet(url)
    ledger.add_webhook(hook("w"))
    for number in (1, 2):
        ledger.webhook_failed("id-w", "HTTP 500", 10.0 * number)
        assert (ledger.webhooks()[0].failures, ledger.webhooks()[0].why) == (number, "HTTP 500")
    assert ledger.webhook_delivered("id-w", AT + 10, None)
    found = ledger.webhooks()[0]
    assert (found.cursor, found.failures, found.retry_at) == (AT + 10, 2, 20.0)
    assert ledger.webhook_delivered("id-w", AT + 11, 5.0)
    found = ledger.webhooks()[0]
    assert (found.cursor, found.failures, found.retry_at, found.why) == (AT + 11, 0, None, "")
    assert found.delivered_at == 5.0


def test_a_cursor_never_goes_back(url: str) -> None:
    """Of two controllers the one that was cut off may still write down what it had sent."""
    ledger = fleet(url)
    ledger.add_webhook(hook("w"))
    ledger.webhook_delivered("id-w", AT + 10, 5.0)
    ledger.webhook_delivered("id-w", AT, 6.0)
    assert ledger.webhooks()[0].cursor == AT + 10


def test_what_is_paused_says_why_until_it_is_resumed(url: str) -> None:
    ledger = fleet(url)
    ledger.add_webhook(hook("w"))
    ledger.webhook_failed("id-w", "HTTP 500", 10.0)
    ledger.pause_webhook("id-w", "too many")
    ledger.pause_webhook("id-w", "another reason")
    ledger.webhook_failed("id-w", "HTTP 502", 20.0)
    assert not ledger.webhook_delivered("id-w", AT + 11, None)
    found = ledger.webhooks()[0]
    assert found.paused_at and (found.why, found.cursor) == ("too many", AT + 11)
    ledger.resume_webhook("id-w")
    found = ledger.webhooks()[0]
    assert (found.paused_at, found.failures, found.why) == (None, 0, "")
    told = [(each.event, each.detail) for each in ledger.audit(event="webhook.")]
    assert told == [
        ("webhook.resumed", "w of blue to w.example.org"),
        ("webhook.paused", "w of blue to w.example.org: too many"),
        ("webhook.added", "w of blue to w.example.org"),
    ]


def test_one_that_is_gone_is_not_found(url: str) -> None:
    ledger = fleet(url)
    ledger.add_webhook(hook("w"))
    ledger.remove_webhook("id-w")
    assert ledger.webhooks() == ()
    assert not ledger.webhook_delivered("id-w", AT + 11, 5.0)
    for change in (ledger.remove_webhook, ledger.resume_webhook, ledger.webhook_rotated):
        with pytest.raises(NotFound):
            change("id-w")
    with pytest.raises(NotFound):
        ledger.pause_webhook("id-w", "why")
