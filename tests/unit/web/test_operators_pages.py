"""Pages of what a fleet costs and needs: showback, prices, balance, health, fence programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from unittest import mock
from urllib.parse import urlencode

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, RED, TwoTenants
from tests.unit.store.values import SLOTS, board, facts
from tests.unit.web.test_pages import Browser
from vgpumgr.model.health import XidLine
from vgpumgr.web import change_routes

OLD = "from=1970-01-01&to=1970-02-01"
"""When the VMs of that ledger were made."""
PRICES = """apiVersion: vgpumgr/v1
kind: PriceBook
from: 1970-01-01T00:00:00Z
currency: EUR
prices:
  - {model: "*", gpu_hour: "2.00"}
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("operators")
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    yield Browser(inside)
    inside.close()


def hidden(text: str, name: str) -> list[str]:
    return [
        unescape(each) for each in re.findall(rf'name="{re.escape(name)}" value="([^"]*)"', text)
    ]


def test_a_cost_is_told_as_soon_as_there_are_prices(browser: Browser) -> None:
    before = browser.get(f"/cost?{OLD}", browser.all)
    assert before.status == 200 and "is not known" in before.text and BLUE in before.text
    draft = hidden(browser.get("/prices", browser.all).text, "text")[0]
    assert "kind: PriceBook" in draft and browser.get("/ask/price.apply", browser.all).status == 200
    wrong = urlencode({"text": PRICES.replace("EUR", "euro"), "request.key": "p1"})
    assert "currency" in browser.post("/do/price.apply", wrong, browser.all).text
    right = urlencode({"text": PRICES, "request.key": "p2"})
    assert browser.post("/do/price.apply", right, browser.all).status == 200
    listed = browser.get("/prices", browser.all).text
    assert "* 2.00" in listed and "EUR" in listed
    after = browser.get(f"/cost?{OLD}", browser.all)
    assert "is not known" not in after.text and ">EUR<" in after.text
    told = browser.get("/v1/reports/cost?since=0&until=2678400", browser.all).body
    assert all(f">{each['amount']}<" in after.text for each in told["lines"])
    assert f">{told['amount']}<" in after.text


def test_a_tenant_reads_its_own_cost_alone(browser: Browser) -> None:
    for by in ("tenant", "vm", "pool"):
        said = browser.get(f"/cost?{OLD}&by={by}", browser.blue)
        assert said.status == 200 and RED not in said.text and ">idle<" not in said.text
    assert BLUE in browser.get(f"/cost?{OLD}", browser.blue).text
    assert browser.post("/do/price.apply", "text=x&request.key=p3", browser.blue).status == 403
    assert browser.get("/cost?from=nonsense", browser.all).status == 400


def test_vms_move_as_they_were_shown_or_not_at_all(browser: Browser) -> None:
    move = {"name": "desk", "from": "h1", "to": "h2", "how": "live", "user": None}
    plan = {"moves": [{**move, "cuts_off": False}], "hosts": [], "staying": []}

    async def shown(*_):
        return plan

    with mock.patch.object(change_routes, "_preview", shown):
        asked = browser.get("/ask/balance.run?hot=0.7", browser.all).text
        assert hidden(asked, "may_move") == ["desk"] and ">Move them<" in asked
        plan["moves"] = []
        asked = browser.get("/ask/balance.run?hot=0.7&may_move=desk", browser.all).text
        assert hidden(asked, "may_move") == [] and ">Move them<" not in asked
    assert browser.get("/balance", browser.blue).status == 403


def test_what_speaks_against_a_gpu_is_told_with_what_would_be_done(browser: Browser) -> None:
    gpu = browser.inside.ledger.gpus()[0]
    boards = [board("h1", 1), board("h1", 2)]
    xid = XidLine(seq=1, address=gpu.facts.device, xid=79, text="it has fallen off the bus")
    seen = replace(facts("h1", *boards), xids=(xid,))
    browser.inside.ledger.observe(seen, {each.device: SLOTS for each in boards}, 200.0)
    said = browser.get("/health", browser.all)
    assert said.status == 200 and f">{gpu.id}<" in said.text and "Xid 79" in said.text
    assert "only told" in said.text and f"{BLUE}-vm" in said.text
    page = browser.get(f"/gpus/{gpu.id}", browser.all)
    assert page.status == 200 and "Xid 79" in page.text
    assert browser.get("/health", browser.blue).status == 404


def test_the_programs_of_a_fence_are_typed_a_line_each(browser: Browser) -> None:
    form = {"name": "h1", "off": "/bin/pdu\r\noff\r\n3", "status": "/bin/pdu\nstatus"}
    asked = browser.post("/ask/host.set-fence", urlencode(form), browser.all).text
    assert "/bin/pdu\noff\n3</textarea>" in asked
    assert ">Is it off?<" not in browser.get("/hosts/h1", browser.all).text
    right = {**form, "request.key": "f1", "request.seen": hidden(asked, "request.seen")[0]}
    done = browser.post("/do/host.set-fence", urlencode(right), browser.all)
    fence = browser.inside.ledger.host("h1").fence
    assert done.status == 200 and fence is not None
    assert (fence.off, fence.status) == (("/bin/pdu", "off", "3"), ("/bin/pdu", "status"))
    assert ">Is it off?<" in browser.get("/hosts/h1", browser.all).text
    assert browser.post("/do/host.set-fence", urlencode(form), browser.blue).status == 403


@pytest.mark.parametrize(
    ("page", "endpoint", "name"),
    [
        ("/power", "power.apply", "rack-1"),
        ("/notifications", "notification.apply", "ops"),
        ("/calendars", "calendar.apply", "austria"),
    ],
)
def test_documents_are_written_on_their_pages(
    browser: Browser, page: str, endpoint: str, name: str
) -> None:
    listed = browser.get(page, browser.all).text
    [draft] = hidden(listed, "text")
    asked = browser.get(f"/ask/{endpoint}?{urlencode({'text': draft})}", browser.all)
    assert asked.status == 200 and 'type="file"' in asked.text
    assert ("rack-1 is new." in asked.text) is (page == "/power")
    wrong = {"text": draft.replace("name:", "nam:"), "request.key": f"{endpoint}-1"}
    refused = browser.post(f"/do/{endpoint}", urlencode(wrong), browser.all)
    assert refused.status == 400 and "nam" in refused.text and 'role="alert"' in refused.text
    right = {"text": draft, "request.key": f"{endpoint}-2"}
    assert browser.post(f"/do/{endpoint}", urlencode(right), browser.all).status == 200
    assert f">{name}<" in browser.get(page, browser.all).text
    assert browser.post(f"/do/{endpoint}", urlencode(right), browser.blue).status == 403


def test_what_a_power_budget_would_change_is_shown_before(browser: Browser) -> None:
    text = "apiVersion: vgpumgr/v1\nkind: PowerBudget\nname: hall\nwatts: {}\n"
    written = {"text": text.format(4000), "request.key": "hall-1"}
    assert browser.post("/do/power.apply", urlencode(written), browser.all).status == 200
    for watts, told in ((4000, "hall stays as it is."), (5000, "watts: 4000 → 5000")):
        draft = urlencode({"text": text.format(watts)})
        assert told in browser.get(f"/ask/power.apply?{draft}", browser.all).text
    broken = browser.get(f"/ask/power.apply?{urlencode({'text': text.format(-1)})}", browser.all)
    assert 'role="alert"' in broken.text and ">Set them<" not in broken.text
