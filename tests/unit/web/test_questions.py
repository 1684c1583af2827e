"""Questions before changes: what is typed comes back, and what was shown is what is done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from unittest import mock
from urllib.parse import urlencode

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, RED, TwoTenants
from tests.unit.web.test_pages import Browser
from vgpumgr.app import enrolment
from vgpumgr.app.config import Config
from vgpumgr.endpoints.settings import setting_items
from vgpumgr.model.errors import UsageError
from vgpumgr.model.role_binding import EVERY_TENANT, Role
from vgpumgr.web.change_routes import _is_vain
from vgpumgr.web.form_fields import MOST_FIELDS, lacks, mark_of, posted_fields, read_fields
from vgpumgr.web.pages import QUESTIONS
from vgpumgr.web.questions import Choice
from vgpumgr.web.rendering import render


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("questions")
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    yield Browser(inside)
    inside.close()


def hidden(text: str, name: str) -> str:
    found = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', text)
    assert found, f"no {name}"
    return unescape(found[1])


def test_what_was_typed_comes_back_where_it_was_refused(browser: Browser) -> None:
    typed = {"name": "h1", "address": "not an address", "tls": "false", "request.key": "q1"}
    asked = browser.get("/ask/host.set-migration?name=h1", browser.all)
    typed["request.seen"] = hidden(asked.text, "request.seen")
    said = browser.post("/do/host.set-migration", urlencode(typed), browser.all)
    assert said.status == 400 and 'role="alert"' in said.text
    assert 'value="not an address"' in said.text and 'value="false" selected' in said.text
    assert hidden(said.text, "request.key") != "q1", "the next attempt is another request"
    assert browser.inside.ledger.host("h1").migration is None
    again = {**typed, "address": "10.0.0.7", "request.key": hidden(said.text, "request.key")}
    assert browser.post("/do/host.set-migration", urlencode(again), browser.all).status == 200
    assert browser.inside.ledger.host("h1").migration.address == "10.0.0.7"


def test_what_was_not_shown_is_not_done(browser: Browser) -> None:
    shown = browser.get(f"/ask/vm.delete?names={BLUE}-vm", browser.all)
    mark = hidden(shown.text, "request.shown")
    assert mark and f"{BLUE}-vm.qcow2" in shown.text and "at work there" in shown.text
    other = {"names": f"{RED}-vm", "force": "true", "request.key": "q2", "request.shown": mark}
    said = browser.post("/do/vm.delete", urlencode(other), browser.all)
    assert said.status == 200 and f"{RED}-vm.qcow2" in said.text
    assert "would happen now" in said.text
    assert hidden(said.text, "request.shown") == mark_of(
        "vm.preview-delete", {"names": [f"{RED}-vm"]}
    )
    assert browser.inside.ledger.api_request("operator", "q2") is None


def test_who_may_only_look_has_no_button_that_does_it(browser: Browser) -> None:
    browser.inside.bind("looks", Role.VIEWER, EVERY_TENANT)
    viewer = browser.inside.token("looks", Role.VIEWER, EVERY_TENANT)
    said = browser.get("/ask/vm.create?vcpus=3", viewer)
    assert said.status == 200 and "Show what would happen" in said.text
    assert ">Create<" not in said.text and 'value="3"' in said.text
    assert browser.post("/do/vm.create", "name=x&request.key=q3", viewer).status == 403
    assert browser.get(f"/ask/vm.stop?names={BLUE}-vm", viewer).status == 403


def test_a_question_waits_for_what_its_preview_needs(browser: Browser) -> None:
    said = browser.get(f"/ask/vm.migrate?name={BLUE}-vm", browser.all)
    assert said.status == 200 and '<option value="h1">' in said.text
    assert ">Move<" not in said.text and "Show what would happen" in said.text


def test_a_hosts_key_is_confirmed_before_it_is_trusted(browser: Browser) -> None:
    trusted = []

    def enrol(app, record, *, fingerprint, install, accept):
        if not fingerprint:
            accept(record.name, "SHA256:abc")
        trusted.append((record.name, fingerprint, dict(record.labels), install))
        return browser.inside.ledger.host("h1")

    form = {"name": "n1", "address": "root@n1", "labels": "a=b c=d", "install": "false"}
    with mock.patch.object(enrolment, "enrol", enrol):
        first = browser.post("/do/host.add", urlencode({**form, "request.key": "k1"}), browser.all)
        assert first.status == 409 and not trusted
        assert 'name="fingerprint" value="SHA256:abc"' in first.text
        assert 'value="root@n1"' in first.text and 'value="a=b c=d"' in first.text
        form |= {"fingerprint": "SHA256:abc", "request.key": hidden(first.text, "request.key")}
        assert browser.post("/do/host.add", urlencode(form), browser.all).status == 200
    assert trusted == [("n1", "SHA256:abc", {"a": "b", "c": "d"}, False)]


def test_lists_are_typed_as_words_and_as_lines() -> None:
    fields = [("hosts", "h1  h2"), ("vms", "a\r\n\r\n b \r\n")]
    choices = (Choice("hosts", "", "words"), Choice("vms", "", "lines"))
    assert read_fields("heal.apply", fields, choices) == {"hosts": ["h1", "h2"], "vms": ["a", "b"]}
    assert read_fields("heal.apply", [("hosts", ""), ("vms", "a b")]) == {"vms": ["a b"]}
    assert lacks("vm.migrate", {"name": "a"}) and not lacks("vm.migrate", {"name": "a", "to": "b"})
    with pytest.raises(UsageError):
        posted_fields(b"&".join([b"a=1"] * (MOST_FIELDS + 1)))


def test_the_trail_is_filtered_by_its_address(browser: Browser) -> None:
    assert browser.get("/trail?since=nonsense", browser.all).status == 400
    assert f"{BLUE}-vm" not in browser.get("/trail?since=2100-01-01T00:00", browser.all).text
    assert f"{BLUE}-vm" in browser.get("/trail?since=1970-01-01T00:00&vm=", browser.all).text
    assert f"{BLUE}-vm" not in browser.get("/trail?vm=another", browser.all).text


def test_settings_are_told_without_a_secret() -> None:
    config = Config(
        ledger="postgresql://ada:hunter2@[::1]:5432/fleet?password=hunter2&sslmode=require",
        state_dir=Path("/var/lib/x"),
        lanes=7,
    )
    found = {each["name"]: each for each in setting_items(config)}
    assert found["ledger"]["value"] == "postgresql://ada@[::1]:5432/fleet"
    assert "hunter2" not in str(found)
    assert found["lanes"] == {"name": "lanes", "value": "7", "default": False}
    assert found["api_key"] == {"name": "api_key", "value": "", "default": True}
    assert found["auth_oidc_scopes"]["value"] == "openid profile"


def test_create_is_not_offered_where_its_preview_was_refused(browser: Browser) -> None:
    refused = browser.get("/ask/vm.create?name=x&profiles=no-such", browser.all)
    assert 'role="alert"' in refused.text
    assert "Show again" in refused.text and ">Create<" not in refused.text


@pytest.mark.parametrize(
    ("endpoint", "preview", "vain"),
    [
        ("vm.create", {"unplaced": [], "actions": []}, False),
        ("vm.create", {"unplaced": [{"vm": "x"}]}, True),
        ("vm.create", {"refused": {"message": "no"}}, True),
        ("vm.migrate", {"checks": [{"holds": True}]}, False),
        ("vm.migrate", {"checks": [{"holds": True}, {"holds": False}]}, True),
        ("vm.apply", {"unplaced": [{"vm": "x"}]}, False),
        ("vm.stop", {"refused": {"message": "no"}}, False),
    ],
)
def test_what_would_be_refused_is_not_offered(
    endpoint: str, preview: dict[str, object], vain: bool
) -> None:
    """Nor is it withheld where something is chosen that the preview does not know."""
    assert _is_vain(QUESTIONS[endpoint], preview) is vain


@pytest.mark.parametrize("moves", [True, False])
def test_a_move_that_a_check_keeps_is_not_said_to_go(moves: bool) -> None:
    checks = [{"name": "cpu", "holds": True, "text": "the same"}]
    checks += 2 * [{"name": "room", "holds": moves, "text": "no T4"}]
    preview = {"from": "h1", "to": "h2", "live": True, "runs": True, "checks": checks}
    told = render("preview/vm.plan-move.html", {"preview": preview})
    assert ("From h1 to h2, running." in told) is moves
    assert ("It cannot move from h1 to h2 now: room." in told) is not moves


def test_the_way_out_of_a_refusal_is_a_link_where_it_has_a_page(browser: Browser) -> None:
    said = browser.post("/do/host.enter-maintenance", "name=h1&request.key=m1", browser.all)
    assert said.status == 502, "it does not answer, and has VMs"
    assert '<a href="/ask/host.evacuate?name=h1">evacuate h1</a>' in said.text
    assert "On the command line" not in said.text
