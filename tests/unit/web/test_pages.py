"""Every page over a ledger of two tenants: it has its headers, and tells of no other tenant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from unittest import mock
from urllib.parse import quote, urlencode

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, OPERATOR, RED, TwoTenants
from vgpumgr.access.principal import Principal
from vgpumgr.app.trail_sealer import seal_now
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import LoginRefused
from vgpumgr.model.role_binding import EVERY_TENANT, Role
from vgpumgr.web.login_pages import local_path
from vgpumgr.web.pages import DOCUMENTS, PAGES, QUESTIONS
from vgpumgr.web.static_files import FOLDER, PREFIX, address

ASK_A_HOST = {"/vms/{vm}/xml", "/hosts/{host}/diagnosis"}
OWN_SCREEN = "/desktops/{pool}/screen"
"""There is no desktop for who runs the fleet."""
FORMS = [each.path for each in DOCUMENTS]
PATHS = ["/map", *FORMS, *(each.path for each in PAGES if each.path not in ASK_A_HOST)]


class Browser:
    """Requests with somebody's token as the cookie of a browser."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        inside.bind(OPERATOR, Role.ADMIN, EVERY_TENANT)
        inside.bind("blue-admin", Role.TENANT_ADMIN, BLUE)
        self.all = inside.token(OPERATOR, Role.ADMIN, EVERY_TENANT)
        self.blue = inside.token("blue-admin", Role.TENANT_ADMIN, BLUE)

    def session(self, user: str = OPERATOR, groups: Collection[str] = ()) -> str:
        """The secret of a login at a provider; without a name of who may do everything."""
        who = Principal(user=user, groups=frozenset(groups), method=LoginMethod.BROWSER)
        return self.inside.app.access.logins.begin(who)[1]

    def get(self, path: str, secret: str = "", **headers: str):
        return self.inside.ask("GET", path, headers=self._with(secret, headers))

    def post(self, path: str, fields: str, secret: str, **headers: str):
        form = {"content-type": "application/x-www-form-urlencoded", **headers}
        return self.inside.ask("POST", path, body=fields.encode(), headers=self._with(secret, form))

    def _with(self, secret: str, headers: dict[str, str]) -> dict[str, str]:
        cookie = {"cookie": f"__Host-vgpumgr={secret}"} if secret else {}
        named = {key.replace("_", "-"): text for key, text in headers.items()}
        return {"host": "vgpumgr", **named, **cookie}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("pages")
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    seal_now(inside.ledger, inside.app.config.keys_dir)
    yield Browser(inside)
    inside.close()


def filled(browser: Browser, path: str, mark: str) -> str:
    ledger = browser.inside.ledger
    operation = next(each.id for each in ledger.operations() if mark in each.id)
    parts = {"vm": f"{mark}-vm", "host": "h1", "gpu": ledger.gpus()[0].id, "id": operation}
    parts |= {"pool": f"{mark}-pool", "image": "cad@1", "queued": f"{mark}-q"}
    parts["profile"] = "docker"
    return re.sub(r"{(\w+)(:path)?}", lambda found: quote(parts[found[1]], safe=""), path)


def test_what_is_deleted_is_found_in_the_trail(browser: Browser) -> None:
    said = browser.get("/vms/long-gone", browser.all)
    assert said.status == 404
    assert 'href="/trail?vm=long-gone"' in said.text
    assert "/trail?" not in browser.get("/hosts/long-gone", browser.all).text


def test_an_operation_is_listed_with_what_it_works_on(browser: Browser) -> None:
    said = browser.get("/operations", browser.all)
    assert f"{BLUE}-vm" in said.text


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_shown_with_its_headers(browser: Browser, path: str) -> None:
    said = browser.get(filled(browser, path, BLUE), browser.all)
    assert said.status == (404 if path == OWN_SCREEN else 200), said.text
    assert said.text.startswith("<!doctype html>") and "</html>" in said.text
    assert "script-src 'self'" in said.headers["content-security-policy"]
    assert said.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", said.text)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_tells_of_no_other_tenant(browser: Browser, path: str) -> None:
    said = browser.get(filled(browser, path, BLUE), browser.blue)
    assert said.status in {200, 403, 404}
    assert RED not in said.text
    if re.search(r"{(vm|id|pool|queued)}", path):
        foreign = browser.get(filled(browser, path, RED), browser.blue)
        assert foreign.status == 404


def test_who_is_not_logged_in_is_led_to_the_login_and_back(browser: Browser) -> None:
    said = browser.get("/vms?q=a%20b")
    assert (said.status, said.headers["location"]) == (303, "/login?next=%2Fvms%3Fq%3Da%2520b")
    assert browser.get("/vms", "vgm_nonsense").status == 303
    assert browser.get("/vms", hx_request="true").status == 401
    shown = browser.post("/login?next=/vms", f"token={browser.all}", "")
    assert (shown.status, shown.headers["location"]) == (303, "/vms")
    cookie = shown.headers["set-cookie"].lower()
    assert all(each in cookie for each in ("httponly", "secure", "samesite=lax", "path=/"))
    assert browser.post("/login", "token=vgm_wrong", "").status == 401


class _OneUser:
    """A directory with one user."""

    def log_in(self, user: str, password: str) -> Principal:
        if (user, password) != ("ada", "right"):
            raise LoginRefused("the user or the password is wrong")
        return Principal(user="ada", groups=frozenset({"all"}), method=LoginMethod.DIRECTORY)


def test_a_password_of_a_directory_is_typed_in(browser: Browser) -> None:
    access = browser.inside.app.access
    assert "/login/directory" not in browser.get("/login", "").text
    assert browser.post("/login/directory", "user=ada&password=right", "").status == 401
    with mock.patch.dict(vars(access), {"directory": _OneUser()}):
        assert 'action="/login/directory?next=%2Fvms"' in browser.get("/login?next=/vms", "").text
        wrong = browser.post("/login/directory", "user=ada&password=w%3Cong", "")
        assert wrong.status == 401 and "w&lt;ong" not in wrong.text
        assert "password is wrong" in wrong.text and 'value="ada"' in wrong.text
        said = browser.post("/login/directory?next=/vms", "user=ada&password=right", "")
        assert (said.status, said.headers["location"]) == (303, "/vms")
        cookie = said.headers["set-cookie"]
        assert "HttpOnly" in cookie and "Secure" in cookie
    session = browser.inside.ledger.login_sessions()[0]
    assert (session.user, session.groups, session.method) == ("ada", {"all"}, "directory")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/vms?q=1", "/vms?q=1"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_no_other_site(text: str, path: str) -> None:
    assert local_path(text) == path


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_another_sites_page_changes_nothing(browser: Browser, headers: dict[str, str]) -> None:
    said = browser.post("/do/host.cordon", "names=h1&request.key=k", browser.all, **headers)
    assert said.status == 303 and said.headers["location"].startswith("/login")
    said = browser.inside.ask(
        "POST",
        "/v1/hosts:cordon",
        body={"names": ["h1"]},
        headers=browser._with(browser.all, dict(headers)),
    )
    assert said.status == 401
    assert not browser.inside.ledger.audit(event="host.cordoned", limit=10)


def test_a_change_is_asked_first_and_made_once(browser: Browser) -> None:
    asked = browser.get("/ask/host.cordon?names=h1", browser.all)
    key = re.search(r'name="request.key" value="([^"]+)"', asked.text)
    assert asked.status == 200 and "Cordon h1?" in asked.text and key
    for _ in range(2):
        done = browser.post(
            "/do/host.cordon",
            f"names=h1&request.key={key[1]}&request.seen=",
            browser.all,
            sec_fetch_site="same-origin",
        )
        assert done.status == 200 and "done" in done.text
    assert browser.inside.ledger.host("h1").cordoned
    changes = browser.inside.ledger.audit(event="host.cordoned", limit=10)
    assert len(changes) == 1


def test_what_cannot_be_done_is_told_with_its_status(browser: Browser) -> None:
    assert browser.get("/ask/vm.stop?names=x", browser.all).status == 200
    assert browser.get("/ask/vm.stop?nonsense=x", browser.all).status == 400
    assert browser.get("/ask/vm.list", browser.all).status == 404
    assert browser.get("/ask/host.cordon?names=h1", browser.blue).status == 403
    assert browser.post("/do/host.cordon", "names=h1", browser.all).status == 400
    told = browser.post("/do/host.cordon", "names=nope&request.key=k9", browser.all)
    assert told.status == 404 and "no host nope" in told.text


def test_text_of_others_is_never_markup(browser: Browser) -> None:
    said = browser.get("/vms?q=%3Cscript%3Ealert(1)%3C/script%3E", browser.all)
    assert "<script>alert" not in said.text and "&lt;script&gt;" in said.text


def test_every_question_is_of_an_endpoint_that_changes_something() -> None:
    from vgpumgr.endpoints.registry import ENDPOINTS

    for name, question in QUESTIONS.items():
        assert ENDPOINTS[name].changes
        assert not question.preview or question.preview in ENDPOINTS


def test_only_files_of_the_pages_are_served(browser: Browser) -> None:
    said = browser.get(address("web.css"))
    assert said.status == 200 and "immutable" in said.headers["cache-control"]
    for path in ("../site.py", "%2e%2e/site.py", "vendor.sha256", "vendor/htmx/LICENSE"):
        assert browser.get(f"{PREFIX}/x/{path}").status == 404


def test_vendored_files_are_as_they_were_taken() -> None:
    lines = (FOLDER / "vendor.sha256").read_text().splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines)
    there = {
        p.relative_to(FOLDER).as_posix() for p in (FOLDER / "vendor").rglob("*") if p.is_file()
    }
    assert set(listed) == there
    for path, digest in listed.items():
        assert hashlib.sha256((FOLDER / path).read_bytes()).hexdigest() == digest, path


WANTED = """apiVersion: vgpumgr/v1
kind: VM
name: page-1
vcpus: 1
memory: 1GiB
gpus: [{profile: T4-4Q}]
"""


def test_what_is_typed_comes_back_with_what_is_wrong_with_it(browser: Browser) -> None:
    wrong = WANTED.replace("vcpus: 1", "vcpu: 1")
    said = browser.post("/apply", urlencode({"text": wrong}), browser.all)
    assert said.status == 400 and "vcpu: 1" in said.text
    assert "the text:4" in said.text and "vcpus" in said.text
    assert 'action="/do/vm.apply"' not in said.text


def test_a_plan_is_shown_before_the_button_that_does_it(browser: Browser) -> None:
    said = browser.post("/explain", urlencode({"text": WANTED}), browser.all)
    assert said.status == 200 and "page-1" in said.text and "/do/" not in said.text
    said = browser.post("/apply", urlencode({"text": WANTED}), browser.blue)
    assert said.status == 403 or RED not in said.text


def test_a_secret_is_shown_once_and_is_in_no_address(browser: Browser) -> None:
    fields = "name=page&role=viewer&tenant=*&request.key=token-1"
    asked = browser.get("/ask/token.create?name=page&role=viewer&tenant=*", browser.session())
    assert asked.status == 200 and "vgm_" not in asked.text
    made = browser.post("/do/token.create", fields, browser.session())
    assert made.status == 200 and re.search(r"vgm_[\w-]{30,}", made.text)
    again = browser.post("/do/token.create", fields, browser.session())
    assert not re.search(r"vgm_[\w-]{30,}", again.text)


def test_a_webhook_is_added_and_its_secret_shown_once(browser: Browser) -> None:
    fields = "name=page&url=https://receiver.example.org/&events=vm.+gpu.&request.key=hook-1"
    assert browser.get("/ask/webhook.add", browser.session()).status == 200
    made = browser.post("/do/webhook.add", fields, browser.session())
    assert made.status == 200 and re.search(r"whsec_[\w+/=]{44}", made.text)
    again = browser.post("/do/webhook.add", fields, browser.session())
    assert "whsec_" not in again.text
    shown = browser.get("/webhooks", browser.session())
    assert "receiver.example.org" in shown.text and "whsec_" not in shown.text
    assert f"{RED}-hook" in shown.text
    assert f"{RED}-hook" not in browser.get("/webhooks", browser.blue).text


def test_what_would_be_is_worked_out_and_nothing_is_done(browser: Browser) -> None:
    before = browser.inside.ledger.vms()
    said = browser.post("/what-if", "add=T4-4Q%3D2&fail=h1", browser.all)
    assert said.status == 200 and "would have none" in said.text
    assert 'value="T4-4Q=2"' in said.text, "what was typed is there"
    assert browser.post("/what-if", "add=nonsense", browser.all).status == 400
    assert browser.inside.ledger.vms() == before


def test_the_trail_is_checked_piece_by_piece(browser: Browser) -> None:
    said = browser.get("/trail/check", browser.all)
    assert said.status == 200 and "are as they were sealed" in said.text
    first = browser.get("/trail/check?most=1", browser.all).text
    assert "1 record compared so far" in first and "are as they were sealed" not in first
    verdict = browser.get("/v1/audit:verify?most=3", browser.all)
    assert verdict.status == 200 and verdict.body["next"]["most"] == 3
    go_on = urlencode({**verdict.body["next"], "most": 10_000, "bad": 2})
    said = browser.get(f"/trail/check?{go_on}", browser.all)
    assert "The trail is not what was sealed: 2 findings" in said.text
    assert browser.get("/trail/check?size=3&edge=00", browser.all).status == 400
    assert browser.get("/trail/check", browser.blue).status == 404


def test_a_vms_snapshots_are_listed_with_what_can_be_done(browser: Browser) -> None:
    said = browser.get(f"/vms/{BLUE}-vm", browser.all).text
    assert f"{BLUE}-kept (the disks lie over it)" in said
    for endpoint in ("create", "revert", "delete"):
        assert f'action="/ask/vm.snapshot.{endpoint}"' in said
    fields = urlencode({"name": f"{BLUE}-vm", "snapshot": f"{BLUE}-kept"})
    asked = browser.get(f"/ask/vm.snapshot.revert?{fields}", browser.all).text
    assert f"Bring {BLUE}-vm back to {BLUE}-kept" in asked and "is lost" in asked


def test_guest_profiles_are_listed_with_what_they_take(browser: Browser) -> None:
    said = browser.get("/guest-profiles?q=docker", browser.blue)
    assert said.status == 200 and 'href="/guest-profiles/docker"' in said.text
    one = browser.get("/guest-profiles/remote-desktop-xrdp", browser.blue)
    assert "A desktop over xrdp" in one.text and "Where it fails" in one.text
    assert browser.get("/guest-profiles/nothing", browser.blue).status == 404


def test_a_new_vm_is_asked_for_its_system(browser: Browser) -> None:
    asked = browser.get("/ask/vm.create?name=page-os&os=windows-11", browser.all)
    assert asked.status == 200 and '<option value="windows-11">' in asked.text
    wrong = browser.get("/ask/vm.create?name=page-os&os=windows-12", browser.all)
    assert "windows-12" in wrong.text and 'role="alert"' in wrong.text
