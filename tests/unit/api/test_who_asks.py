"""Who asks over HTTP is who asked, also in a worker: never the account that the API runs as."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.markers import BlueAsks, blue_asks
from tests.two_tenants import BLUE
from vgpumgr.model.role_binding import Role

EVE, POOL = "eve", f"/v1/pools/{BLUE}-pool"


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlueAsks]:
    with blue_asks(tmp_path_factory.mktemp("who-asks")) as made:
        made.inside.bind(EVE, Role.TENANT_USER, BLUE)
        yield made


@pytest.mark.parametrize("verb", ["connect", "remote-desktop"])
def test_anothers_desktop_is_refused(asks: BlueAsks, verb: str) -> None:
    secret = asks.inside.token(EVE, Role.TENANT_USER, BLUE)
    said = asks.inside.ask("POST", f"{POOL}:{verb}", secret, {"user": f"{BLUE}-user"})
    assert (said.status, said.body["code"]) == (403, "not-permitted.role"), said.text


@pytest.mark.parametrize("verb", ["connect", "remote-desktop"])
def test_a_desktop_is_asked_for_in_the_callers_name(asks: BlueAsks, verb: str) -> None:
    secret = asks.inside.token(EVE, Role.TENANT_USER, BLUE)
    said = asks.inside.ask("POST", f"{POOL}:{verb}", secret, {})
    assert said.body["message"] == f"{EVE} and its groups are not entitled to {BLUE}-pool"


def test_a_test_of_a_webhook_is_the_callers(asks: BlueAsks) -> None:
    from vgpumgr.app.webhooks import receiver

    sent = []

    def taken(*given: object, **_: object) -> int:
        sent.append(given)
        return 200

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiver, "post", taken)
        asks.inside.bind("ada", Role.TENANT_ADMIN, BLUE)
        secret = asks.inside.token("ada", Role.TENANT_ADMIN, BLUE)
        hook = {"name": "mine", "url": "https://receiver.example.org/"}
        assert asks.inside.ask("POST", "/v1/webhooks", secret, hook).status == 200
        said = asks.inside.ask("POST", "/v1/webhooks/mine:test", secret, {})
    assert said.status == 200 and "by ada" in str(sent), said.text


def test_a_refused_stream_of_events_is_in_the_trail(asks: BlueAsks) -> None:
    secret = asks.inside.token(EVE, Role.TENANT_USER, BLUE)
    ledger = asks.inside.ledger
    end = ledger.trail_since(None).end
    assert asks.inside.ask("GET", "/v1/events", secret).status == 403
    assert [(each.event, each.by) for each in ledger.audit_after(end, 10)] == [
        ("access.refused", EVE)
    ]
