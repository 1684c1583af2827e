"""Who sees which pages, and what a user of desktops is told of the own ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, RED, TwoTenants
from tests.unit.web.test_pages import Browser
from vgpumgr.model.desktop import (
    Booking,
    DesktopRequest,
    DesktopRequestRecord,
    DesktopSession,
    DesktopState,
)
from vgpumgr.model.role_binding import EVERY_TENANT, Role

USER = f"{BLUE}-asks"
"""Waits for a desktop of the tenant's pool."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("who")
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    yield Browser(inside)
    inside.close()


def login(browser: Browser, user: str, *roles: tuple[Role, str]) -> str:
    """The cookie of a user who has these roles in these tenants."""
    for role, tenant in roles:
        browser.inside.bind(user, role, tenant)
    return browser.session(user)


def menu(browser: Browser, secret: str) -> list[str]:
    said = browser.get("/me", secret)
    return re.findall(r"<li><a [^>]*>([^<]+)</a></li>", said.text)


def landing(browser: Browser, secret: str) -> str:
    return browser.get("/", secret).headers["location"]


def test_a_user_of_desktops_is_shown_the_own_ones_alone(browser: Browser) -> None:
    secret = login(browser, USER, (Role.TENANT_USER, BLUE))
    assert menu(browser, secret) == ["My desktops"]
    assert landing(browser, secret) == "/desktops"
    said = browser.get("/desktops", secret)
    assert said.status == 200 and f"{BLUE}-pool" in said.text and RED not in said.text
    for path in ("/access", "/trail", "/drift", "/use", "/settings", "/layouts"):
        assert browser.get(path, secret).status in {403, 404}, path
    for change in ("pool.release", "pool.scale", "booking.create", "quota.set", "role.grant"):
        assert browser.get(f"/ask/{change}", secret).status == 403, change
        asked = f"name={BLUE}-pool&user={BLUE}-user&request.key={change}"
        assert browser.post(f"/do/{change}", asked, secret).status in {400, 403}, change


@pytest.mark.parametrize(
    ("user", "roles"),
    [
        ("sees-all", ((Role.TENANT_USER, BLUE), (Role.VIEWER, EVERY_TENANT))),
        ("sees-red", ((Role.TENANT_USER, BLUE), (Role.VIEWER, RED))),
        ("audits", ((Role.TENANT_USER, BLUE), (Role.AUDITOR, EVERY_TENANT))),
        ("runs-blue", ((Role.TENANT_ADMIN, BLUE),)),
        ("runs-all", ((Role.OPERATOR, EVERY_TENANT),)),
    ],
)
def test_who_has_more_to_see_begins_at_the_map(
    browser: Browser, user: str, roles: tuple[tuple[Role, str], ...]
) -> None:
    secret = login(browser, user, *roles)
    assert landing(browser, secret) == "/map"
    assert {"My desktops", "Map", "Pools", "Queue"} <= set(menu(browser, secret))


def test_a_menu_has_what_there_is_to_see_for_a_role(browser: Browser) -> None:
    admin = set(menu(browser, login(browser, "blue-runs", (Role.TENANT_ADMIN, BLUE))))
    assert {"Access", "Trail", "Apply", "Bookings", "Quotas"} <= admin
    assert not {"Layouts", "Drift", "Use", "Settings"} & admin
    operator = set(menu(browser, login(browser, "operates", (Role.OPERATOR, EVERY_TENANT))))
    assert {"Layouts", "Drift", "Use", "Trail"} <= operator and "Access" not in operator


def test_who_waits_is_told_at_which_place_and_why(browser: Browser) -> None:
    ledger, secret = browser.inside.ledger, login(browser, USER, (Role.TENANT_USER, BLUE))
    pool = ledger.pool(f"{BLUE}-pool")
    ledger.end_ask(pool.id, USER)
    for user, since in ((USER, 9.0), ("first", 1.0)):
        ask = DesktopRequest(user=user, since=since, groups=frozenset({"staff"}))
        ledger.ask_desktop(DesktopRequestRecord(id=f"a-{user}-2", pool=pool.id, ask=ask))
    [item] = browser.inside.ask("GET", "/v1/desktops", secret).body["items"]
    assert (item["position"], item["desktop"]) == (2, None)
    assert item["why"] == "no desktop is ready"
    said = browser.get("/desktops", secret)
    assert "You are number 2 in line" in said.text and item["why"] in said.text
    assert "first" not in re.sub(r"\s+", " ", said.text).split("<main")[1]
    ledger.end_ask(pool.id, "first")
    assert "You are number 1 in line" in browser.get("/desktops", secret).text


def test_why_a_user_waits_names_no_other_user(browser: Browser) -> None:
    """Whatever the pool is like: empty, full, drained, with others before or on its desktops."""
    ledger, secret = browser.inside.ledger, login(browser, USER, (Role.TENANT_USER, BLUE))
    pool = ledger.pool(f"{BLUE}-pool")
    others = [f"other-{number}" for number in range(4)]
    for since, user in enumerate((*others, USER)):
        ledger.end_ask(pool.id, user)
        ask = DesktopRequest(user=user, since=float(since), groups=frozenset({"staff"}))
        ledger.ask_desktop(DesktopRequestRecord(id=f"a-{user}-3", pool=pool.id, ask=ask))
    before = next(each for each in ledger.desktops() if each.pool == pool.id)
    told = set()
    for state in DesktopState:
        for user in ("", others[0]):
            session = DesktopSession(user=user, since=1.0, active=1.0) if user else None
            row = next(each for each in ledger.desktops() if each.id == before.id)
            changed = replace(row.desktop, state=state, session=session, owner=user)
            ledger.take_desktops([replace(row, desktop=changed)])
            items = browser.inside.ask("GET", "/v1/desktops", secret).body["items"]
            told |= {each["why"] for each in items}
    assert len(told) > 1 and not [why for why in told if "other-" in why or RED in why]


def test_a_booking_is_told_to_its_group(browser: Browser) -> None:
    ledger = browser.inside.ledger
    profile = ledger.pool(f"{BLUE}-pool").spec.profile
    ledger.book(Booking(id="b-own", group="staff", profile=profile, count=3, start=1.0,
                        end=4102444800.0), BLUE)  # fmt: skip
    browser.inside.bind("ada", Role.TENANT_USER, BLUE)
    for groups, booked in ((("staff",), 1), ((), 0)):
        secret = browser.session("ada", groups)
        items = browser.inside.ask("GET", "/v1/desktops", secret).body["items"]
        assert sum(len(each["bookings"]) for each in items) == booked
        assert ("3 desktops are booked for staff" in browser.get("/desktops", secret).text) == bool(
            booked
        )
