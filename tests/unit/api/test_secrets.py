"""Secrets over HTTP: a value comes in and never out, and a tenant's are its own."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.api.inside import Inside, Said
from tests.ledgers import new_ledger
from vgpumgr.endpoints.endpoint import Runs
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.role_binding import EVERY_TENANT, Role

MARK = "marker-hunter2"
ANY = {"if-match": "*"}


class Asker:
    """Requests of an administrator and of two tenants' administrators."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self.logins = {}
        for name, role, tenant in (
            *(("root", Role.ADMIN, EVERY_TENANT), ("blue", Role.TENANT_ADMIN, "blue")),
            *(("red", Role.TENANT_ADMIN, "red"), ("user", Role.TENANT_USER, "blue")),
        ):
            inside.bind(name, role, tenant)
            self.logins[name] = inside.token(name, role, tenant)

    def __call__(
        self, who: str, method: str, path: str, body: object = None, **headers: str
    ) -> Said:
        given = {name.lower().replace("_", "-"): text for name, text in headers.items()}
        more = {} if method == "GET" else {**ANY, **given}
        said = self.inside.ask(method, f"/v1/secrets{path}", self.logins[who], body, more)
        assert MARK not in said.text and MARK not in str(said.headers)
        return said

    def set(self, who: str, path: str, value: str = MARK, **more: str) -> Said:
        return self(who, "PUT", path, {"value": value}, **more)

    def everything_kept(self) -> bytes:
        return b"".join(each.read_bytes() for each in self.folder.glob("ledger.db*"))

    @property
    def folder(self) -> Path:
        return self.inside.app.config.state_dir


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("secrets")
    new_ledger(folder / "ledger.db")
    inside = Inside(folder, folder / "ledger.db")
    yield Asker(inside)
    inside.close()


def test_a_tenants_secrets_are_its_own(ask: Asker) -> None:
    assert ask.set("blue", "/blue/licence").body["state"] == "present"
    assert ask.set("root", "/*/bmc-1").status == 200
    assert ask.inside.app.secrets.read("blue", "licence").reveal() == MARK.encode()

    def names(who: str) -> list[str]:
        return [each["name"] for each in ask(who, "GET", "").body["items"]]

    assert {"bmc-1", "licence"} <= set(names("root"))
    assert (names("blue"), names("red")) == (["licence"], [])
    for path in ("/blue/licence", "/*/bmc-1"):
        assert ask("red", "GET", path).status == 404
        assert ask.set("red", path).status == 404
        assert ask("red", "DELETE", path, {"force": True}).status == 404
    assert [ask("user", "GET", "").status, ask.set("user", "/blue/licence").status] == [403, 403]
    assert ask("blue", "DELETE", "/blue/licence", {}).status == 200
    assert names("blue") == []


def test_a_foreign_secret_is_answered_as_one_that_there_is_none_of(ask: Asker) -> None:
    ask.set("blue", "/blue/licence")
    foreign, none = (ask("red", "GET", f"/blue/{each}").body for each in ("licence", "absent"))
    assert json.dumps(foreign).replace("licence", "absent") == json.dumps(none)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((f"/blue/{name}", {"value": MARK}) for name in ("A", "..", "%2e%2e", "a%2Fb", "x" * 64)),
        *((f"/{tenant}/a", {"value": MARK}) for tenant in ("_fleet", ".", "a%2F..", "**")),
        ("/blue/a", {"value": MARK * 10_000}),
        ("/blue/a", {"value": MARK, "encoding": "base64"}),
        ("/blue/a", {"value": MARK, "encoding": "rot13"}),
        ("/blue/a", {"value": MARK, "more": 1}),
        ("/blue/a", {"value": [MARK]}),
        ("/blue/a", {"value": f"{MARK}\ud800"}),
        ("/blue/a", {"value": ""}),
        ("/blue/a", {}),
    ],
)
def test_what_is_no_secret_is_refused_without_showing_it(
    ask: Asker, path: str, body: object
) -> None:
    said = ask("root", "PUT", path, body)
    assert 400 <= said.status < 500
    assert not {"a", "A"} & {each["name"] for each in ask("root", "GET", "").body["items"]}
    assert not [each for each in ask.folder.rglob("*") if each.name in {"a", "A", "x" * 64}]


def test_bytes_come_in_base64(ask: Asker) -> None:
    ask("root", "PUT", "/*/key", {"value": "/w8=", "encoding": "base64"})
    assert ask.inside.app.secrets.read("*", "key").reveal() == b"\xff\x0f"


def test_what_is_kept_of_a_request_allows_no_guess(ask: Asker) -> None:
    """Its digest is not that of the request: who has the ledger cannot try values."""
    key = "00000000-0000-0000-0000-000000000001"
    assert ask.set("root", "/*/bmc-1", Idempotency_Key=key).status == 200
    again = ask.set("root", "/*/bmc-1", Idempotency_Key=key)
    assert again.status == 200 and again.body["name"] == "bmc-1"
    assert ask.set("root", "/*/bmc-1", "other", Idempotency_Key=key).body["code"] == "idempotency"
    assert ask.inside.app.secrets.read("*", "bmc-1").reveal() == MARK.encode()
    kept = ask.inside.ledger.api_request("root", key)
    assert kept is not None
    asked = {"tenant": "*", "name": "bmc-1", "value": MARK, "encoding": "text"}
    plain = json.dumps(["secret.set", asked], sort_keys=True)
    assert kept.digest != hashlib.sha256(plain.encode()).hexdigest()
    digests = {kept.digest.encode(), ask.inside.ledger.secrets()[0].digest.encode()}
    guesses = {hashlib.sha256(text.encode()).hexdigest().encode() for text in (plain, MARK)}
    data = ask.everything_kept()
    assert all(each in data for each in digests) and not any(each in data for each in guesses)
    assert MARK.encode() not in data


def test_a_secret_that_was_changed_meanwhile_is_not_replaced(ask: Asker) -> None:
    ask.set("root", "/*/bmc-1")
    tag = ask("root", "GET", "/*/bmc-1").headers["etag"]
    path, login = "/v1/secrets/*/bmc-1", ask.logins["root"]
    said = ask.inside.ask("PUT", path, login, {"value": "other"}, {})
    assert said.status == 428
    ask.set("root", "/*/bmc-1", "other")
    assert ask.set("root", "/*/bmc-1", If_Match=tag).status == 412


def test_the_page_takes_a_value_and_never_shows_it(ask: Asker) -> None:
    inside, cookie = (
        ask.inside,
        {"host": "vgpumgr", "cookie": f"__Host-vgpumgr={ask.logins['root']}"},
    )
    form = {"content-type": "application/x-www-form-urlencoded", **cookie}
    shown = inside.ask("GET", f"/ask/secret.set?name=page-1&value={MARK}", headers=cookie)
    assert 'type="password"' in shown.text and MARK not in shown.text

    def sent(**more: str) -> Said:
        key = re.search(r'name="request.key" value="([^"]*)"', shown.text)
        assert key is not None
        fields = {"request.key": unescape(key[1]), "name": "page-1", "value": MARK, **more}
        return inside.ask("POST", "/do/secret.set", body=urlencode(fields).encode(), headers=form)

    refused = sent(tenant="No Tenant")
    assert refused.status == 400 and MARK not in refused.text
    shown = refused
    done = sent(tenant="*")
    assert done.status == 200 and MARK not in done.text
    page = inside.ask("GET", "/secrets", headers=cookie)
    assert "page-1" in page.text and "present" in page.text and MARK not in page.text


def test_what_is_concealed_goes_to_no_worker_and_into_no_text() -> None:
    """A worker is told of a call in writing, and a parameter's text may come into a log."""
    concealing = [each for each in ENDPOINTS.values() if each.conceals]
    assert concealing
    for each in concealing:
        assert each.runs is Runs.LEDGER and each.changes
        hidden = {field.name for field in dataclasses.fields(each.asks) if not field.repr}
        assert hidden == set(each.conceals)


def test_a_value_of_which_the_ledger_does_not_know_is_shown_and_removed(ask: Asker) -> None:
    ask.set("root", "/*/stray")
    ask.inside.ledger.remove_secret("*", "stray")
    assert ask("root", "GET", "/*/stray").body["state"] == "unrecorded"
    assert ask("root", "DELETE", "/*/stray", {}).status == 200
    assert ask("root", "GET", "/*/stray").status == 404
