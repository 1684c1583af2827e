"""Every page is reached from the menu, by links alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from tests.two_tenants import TwoTenants
from tests.unit.web.test_pages import ASK_A_HOST, OWN_SCREEN, Browser
from vgpumgr.web.pages import DOCUMENTS, PAGES

RUNNING = {"/vms/{vm}/screen", "/vms/{vm}/serial"}
"""Linked where the VM runs: in that ledger none does."""
MOST = 400


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("ways")
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    yield Browser(inside)
    inside.close()


def pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{\w+(:path)?}", "[^/]+", path))


def links(text: str) -> set[str]:
    found = re.findall(r'(?:href|hx-get)="(/[^"#]*)"', text)
    return {unescape(each) for each in found if not each.startswith(("/static", "/v1/"))}


def test_every_page_is_reached_by_links(browser: Browser) -> None:
    wanted = {*(each.path for each in DOCUMENTS), *(each.path for each in PAGES)}
    wanted -= {OWN_SCREEN, *RUNNING, *ASK_A_HOST}
    seen, rest = set(), ["/map"]
    while rest and len(seen) < MOST and wanted:
        path = rest.pop(0)
        bare = path.partition("?")[0]
        kind = next((each for each in wanted if pattern(each).fullmatch(bare)), bare)
        wanted.discard(kind)
        said = browser.get(path, browser.all)
        for each in sorted(links(said.text)):
            if each.partition("?")[0] not in seen:
                seen.add(each.partition("?")[0])
                rest.append(each)
    assert wanted == set()
