"""Webhooks over HTTP: a tenant's administrator has those of the own tenant alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, RED
from vgpumgr.app.webhooks.delivery_schedule import webhook_secrets
from vgpumgr.model.role_binding import EVERY_TENANT, Role
from vgpumgr.model.webhook import Webhook

URL = "https://receiver.example.org/hook"
Api = tuple[Inside, str]


@pytest.fixture(scope="module")
def blue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The API, and the token of an administrator of one of two tenants."""
    folder = tmp_path_factory.mktemp("webhooks")
    new_ledger(folder / "ledger.db")
    inside = Inside(folder, folder / "ledger.db")
    for each in (BLUE, RED):
        inside.ledger.add_webhook(Webhook(id=each, name=f"{each}-hook", tenant=each, url=URL))
    inside.bind("ada", Role.TENANT_ADMIN, BLUE)
    yield inside, inside.token("ada", Role.TENANT_ADMIN, EVERY_TENANT)
    inside.close()


def body(name: str = "new", **more: object) -> dict[str, object]:
    return {"name": name, "url": URL, **more}


def names(blue: Api) -> list[str]:
    said = blue[0].ask("GET", "/v1/webhooks", blue[1])
    return [each["name"] for each in said.body["items"]]


def test_one_is_added_for_the_own_tenant_and_its_secret_is_told_once(blue: Api) -> None:
    inside, secret = blue
    said = inside.ask("POST", "/v1/webhooks", secret, body(), {"idempotency-key": "k"})
    assert (said.status, said.body["tenant"]) == (200, BLUE)
    assert said.body["secret"].startswith("whsec_")
    again = inside.ask("POST", "/v1/webhooks", secret, body(), {"idempotency-key": "k"})
    assert said.body["secret"] not in again.text
    shown = inside.ask("GET", "/v1/webhooks/new", secret)
    assert shown.status == 200 and "whsec_" not in shown.text
    assert names(blue) == [f"{BLUE}-hook", "new"]
    [made] = [each for each in inside.ledger.webhooks() if each.name == "new"]
    kept = webhook_secrets(inside.app.config)
    assert kept.has(made.id)
    new = inside.ask("POST", "/v1/webhooks/new:rotate", secret, {"keep_h": 1}, {})
    assert new.status == 200 and new.body["secret"].startswith("whsec_")
    assert new.body["secret"] != said.body["secret"] and len(kept.keys(made.id, time.time())) == 2
    assert inside.ask("POST", "/v1/webhooks/new:rotate", secret, {"keep_h": 721}).status == 422
    assert inside.ledger.audit(event="webhook.")[0].event == "webhook.rotated"
    assert inside.ask("DELETE", "/v1/webhooks/new", secret).status == 200
    assert not kept.has(made.id)


@pytest.mark.parametrize("tenant", [RED, EVERY_TENANT])
def test_none_is_added_for_others(blue: Api, tenant: str) -> None:
    said = blue[0].ask("POST", "/v1/webhooks", blue[1], body(tenant=tenant))
    assert (said.status, said.body["code"]) == (403, "not-permitted.role")
    assert names(blue) == [f"{BLUE}-hook"]
    assert not list(blue[0].app.config.state_dir.glob("secrets/*"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", ""), ("DELETE", ""), ("POST", ":pause"), ("POST", ":resume")),
        *(("POST", ":rotate"), ("POST", ":test")),
    ],
)
def test_anothers_is_not_found(blue: Api, method: str, path: str) -> None:
    inside, secret = blue
    asked = {} if method == "POST" else None
    there = inside.ask(method, f"/v1/webhooks/{RED}-hook{path}", secret, asked)
    nowhere = inside.ask(method, f"/v1/webhooks/none{path}", secret, asked)
    assert there.status == nowhere.status == 404
    assert there.text.replace(f"{RED}-hook", "none") == nowhere.text
    assert f"{RED}-hook" in {each.name for each in inside.ledger.webhooks()}


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({"url": "http://receiver.example.org/"}, 400),
        ({"url": "https://169.254.169.254/"}, 400),
        ({"url": "x" * 2000}, 400),
        ({"events": ["nothing."]}, 400),
        ({"events": ["vm."] * 33}, 400),
        ({"name": "No Name"}, 400),
        ({"tenant": "No Tenant"}, 400),
        ({"name": f"{BLUE}-hook"}, 409),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_no_secret(
    blue: Api, bad: dict[str, object], status: int
) -> None:
    said = blue[0].ask("POST", "/v1/webhooks", blue[1], body() | bad)
    assert said.status in ({400, 422} if status == 400 else {status}), said.text
    assert not list(blue[0].app.config.state_dir.glob("secrets/*"))


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TENANT_USER, Role.OPERATOR])
def test_other_roles_neither_see_nor_add_one(blue: Api, role: Role) -> None:
    inside, _ = blue
    user = f"eve-{role}"
    inside.bind(user, role, BLUE)
    secret = inside.token(user, role, EVERY_TENANT)
    assert inside.ask("GET", "/v1/webhooks", secret).status == 403
    assert inside.ask("POST", "/v1/webhooks", secret, body()).status == 403


def test_a_pause_says_by_whom_and_why(blue: Api) -> None:
    inside, secret = blue
    path = f"/v1/webhooks/{BLUE}-hook"
    said = inside.ask("POST", f"{path}:pause", secret, {"why": "moving"})
    assert (said.body["state"], said.body["why"]) == ("paused", "paused by ada: moving")
    assert json.loads(inside.ask("GET", path, secret).text)["state"] == "paused"
    assert inside.ask("POST", f"{path}:resume", secret, {}).body["state"] == "active"
