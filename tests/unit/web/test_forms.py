"""Forms of bookings, quotas and access: what must be said is said, and what was is prefilled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.api.inside import Inside, Said
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, RED, TwoTenants
from tests.unit.web.test_pages import Browser
from tests.unit.web.test_questions import hidden
from vgpumgr.model.errors import UsageError
from vgpumgr.model.quota import Quota
from vgpumgr.web.form_fields import read_fields, typed_text
from vgpumgr.web.pages import QUESTIONS
from vgpumgr.web.questions import Choice


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("forms")
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    yield Browser(inside)
    inside.close()


def answered(browser: Browser, name: str, query: str, /, **typed: str) -> Said:
    """The question of an address, answered with what is typed."""
    asked = browser.get(f"/ask/{name}?{query}", browser.all)
    assert asked.status == 200, asked.text
    about = {key: hidden(asked.text, key) for key in ("request.key", "request.seen")}
    return browser.post(f"/do/{name}", urlencode({**about, **typed}), browser.all)


def test_a_role_is_granted_in_all_tenants_only_where_that_was_said(browser: Browser) -> None:
    who = {"subject": "user:eve", "role": "admin"}
    said = answered(browser, "role.grant", "", **who)
    assert said.status == 400 and "Tenant: nothing was said" in said.text
    assert 'value="user:eve"' in said.text and '<option value="admin" selected>' in said.text
    assert not browser.inside.ledger.role_bindings(["user:eve"])
    assert answered(browser, "role.grant", "", **who, tenant=BLUE).status == 200
    [bound] = browser.inside.ledger.role_bindings(["user:eve"])
    assert bound.tenant == BLUE


def test_a_vm_of_another_manager_is_read(browser: Browser) -> None:
    text = "name: old\ncores: 2\nmemory: 2048\nostype: l26\nscsi0: local:100/a.qcow2,size=8G\n"
    fields = {"manager": "proxmox", "names": "100.conf", "text": text}
    said = browser.post("/takeover", urlencode(fields), browser.all)
    assert said.status == 200, said.text
    assert "<h3>old" in said.text and "What would become of it" in said.text
    assert '<option value="proxmox" selected>' in said.text
    wrong = browser.post("/takeover", urlencode({**fields, "gpus": "a=nonsense"}), browser.all)
    assert wrong.status == 400 and "nonsense is no profile and no board" in wrong.text


def test_backups_are_made_and_restored_by_forms(browser: Browser) -> None:
    form = {"name": "safe", "pool": "safe", "vms": "web-*", "every_s": "86400", "last": "3"}
    assert answered(browser, "backup.target.create", "", **form).status == 200
    page = browser.get("/backup-targets", browser.all)
    assert ">safe<" in page.text and "web-*" in page.text
    listed = browser.get("/backups", browser.all).text
    assert "/ask/backup.create" in listed and BLUE in listed
    backup = next(each.id for each in browser.inside.ledger.vm_backups())
    for name in ("backup.restore", "backup.verify", "backup.delete"):
        asked = browser.get(f"/ask/{name}?backup={backup}", browser.all)
        assert asked.status == 200 and backup in asked.text
    assert f"{RED}-" not in browser.get("/backups", browser.blue).text


def test_a_quota_is_changed_from_what_it_is(browser: Browser) -> None:
    def quota() -> Quota:
        return next(each for each in browser.inside.ledger.quotas() if each.tenant == BLUE)

    page = browser.get("/quotas", browser.all)
    row = next(each for each in page.text.split("<tr>") if f'scope="row">{BLUE}<' in each)
    assert 'name="vms" value="9"' in row and "of 9" in row
    said = answered(browser, "quota.set", f"tenant={BLUE}&vms=9", tenant=BLUE, vms="12", gpus="3")
    assert said.status == 200 and (quota().vms, quota().gpus) == (12, 3)
    said = answered(browser, "quota.set", f"tenant={BLUE}", tenant=BLUE, gpus="none")
    assert said.status == 200 and (quota().vms, quota().gpus) == (12, None)


def test_a_quota_is_set_where_there_was_none(browser: Browser) -> None:
    assert answered(browser, "quota.set", "tenant=green", tenant="green", vms="2").status == 200
    said = answered(browser, "quota.set", "", tenant="green", vms="4")
    assert said.status == 428, "it was not seen as it is"
    seen = {key: hidden(said.text, key) for key in ("request.key", "request.seen")}
    form = urlencode({**seen, "tenant": "green", "vms": "4"})
    assert browser.post("/do/quota.set", form, browser.all).status == 200


def test_a_mapping_is_typed_as_words() -> None:
    fields = [("tenant", "a"), ("profiles", "A40-8Q=10, T4-4Q=none"), ("reserved", " ")]
    read = read_fields("quota.set", fields)
    assert read == {"tenant": "a", "profiles": {"A40-8Q": "10", "T4-4Q": "none"}}
    assert typed_text(Choice("profiles", "", "text"), read) == "A40-8Q=10 T4-4Q=none"
    with pytest.raises(UsageError, match="is not like"):
        read_fields("quota.set", [("profiles", "A40-8Q")])


def test_a_form_proposes_what_there_is_in_the_own_tenants(browser: Browser) -> None:
    said = browser.get("/ask/booking.create", browser.blue)
    assert '<option value="staff">' in said.text and 'type="datetime-local"' in said.text
    said = browser.get("/ask/role.grant", browser.blue)
    assert f'<option value="{BLUE}">' in said.text and RED not in said.text


def test_a_queue_entry_shows_why_it_waits(browser: Browser) -> None:
    said = browser.get(f"/queue/{BLUE}-q", browser.blue)
    assert re.search(rf"behind {BLUE}", said.text) and "Cancel" in said.text
    listed = browser.get("/queue", browser.blue)
    assert f'href="/queue/{BLUE}-q"' in listed.text and "How long VMs wait" in listed.text
    assert browser.get("/queue/nothing", browser.blue).status == 404


def test_each_form_without_a_field_asks_again(browser: Browser) -> None:
    """Nothing that is needed has a silent default."""
    for name, question in QUESTIONS.items():
        for each in question.choices:
            if each.required:
                rest = {c.name: "x" for c in question.choices if c.required and c is not each}
                form = urlencode({**rest, "request.key": f"{name}-{each.name}"})
                said = browser.post(f"/do/{name}", form, browser.all)
                assert said.status == 400, (name, each.name)


def test_what_cannot_be_read_is_said_by_the_forms_own_words(browser: Browser) -> None:
    typed = {"tenant": BLUE, "gpu_memory_mib": "24GiB", "vms": "7"}
    said = answered(browser, "quota.set", f"tenant={BLUE}", **typed)
    assert said.status == 400 and "GPU memory at most, in MiB: Input should be" in said.text
    assert 'value="24GiB"' in said.text and 'value="7"' in said.text, "what was typed is there"


def test_the_labels_of_a_host_are_replaced(browser: Browser) -> None:
    page = browser.get("/hosts/h1", browser.all)
    assert 'action="/ask/host.set-labels"' in page.text

    def labelled(labels: str) -> Said:
        return answered(browser, "host.set-labels", "name=h1", name="h1", labels=labels)

    assert labelled("rack=7 use=vdi").status == 200
    assert browser.inside.ledger.host("h1").labels == {"rack": "7", "use": "vdi"}
    assert "rack=7 use=vdi" in browser.get("/hosts/h1", browser.all).text
    wrong = labelled("=7")
    assert wrong.status == 400 and 'value="=7"' in wrong.text
    assert labelled("").status == 200
    assert browser.inside.ledger.host("h1").labels == {}


def test_hosts_are_listed_by_the_free_memory_of_their_gpus(browser: Browser) -> None:
    page = browser.get("/hosts?order=free", browser.all).text
    assert 'aria-sort="descending"' in page and re.search(r"[\d.]+ GiB of [\d.]+ GiB", page)
