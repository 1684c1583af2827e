"""A user at a browser who goes by what is on the page; the clicks are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import BUILD

PICTURES = BUILD / "first-day"
LABELLED = re.compile(r"\W+")


class Walk:
    """The way through the pages. ``clicks`` has what each task took: what was typed is none."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.name = name
        self.clicks: dict[str, int] = {}
        self._count = 0
        PICTURES.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def task(self, title: str) -> Iterator[None]:
        """What is clicked meanwhile is of this task."""
        self._count = 0
        try:
            yield
        finally:
            number = len(self.clicks) + 1
            file = f"{self.name}-{number:02}-{LABELLED.sub('-', title)[:40]}.png"
            self.page.screenshot(path=Path(PICTURES / file), full_page=True)
        self.clicks[title] = self._count
        print(f"{self.name}: {title}: {self._count} clicks")

    def menu(self, entry: str) -> None:
        """A page of the menu."""
        self._click(
            self.page.get_by_label("Pages", exact=True).get_by_role("link", name=entry, exact=True)
        )

    def link(self, name: str, within: Locator | None = None) -> None:
        """A link by its text."""
        self._click(
            (within or self.page.locator("main")).get_by_role("link", name=name, exact=True)
        )

    def first(self, within: Locator) -> None:
        """The first link there."""
        self._click(within.get_by_role("link"))

    def button(self, name: str, within: Locator | None = None) -> None:
        """A button by its text."""
        self._click(
            (within or self.page.locator("body")).get_by_role("button", name=name, exact=True)
        )

    def open(self, name: str) -> None:
        """What is folded under that text."""
        self._click(self.page.locator("summary", has_text=name))

    def tick(self, label: str) -> None:
        """A box."""
        self._click(self.page.get_by_label(label))

    def choose(self, label: str, option: str) -> None:
        """One of several."""
        self.page.get_by_label(label, exact=True).select_option(option)
        self._count += 1

    def fill(self, **texts: str) -> None:
        """Fields by their labels, ``_`` for a space; what is typed is no click."""
        for label, text in texts.items():
            self.type(label.replace("_", " "), text)

    def type(self, label: str, text: str) -> None:
        """One field."""
        self.page.get_by_label(label, exact=True).fill(text)

    def row(self, text: str) -> Locator:
        """The row of a table that has this text."""
        return self.page.get_by_role("row").filter(has_text=text)

    def sees(self, text: str | re.Pattern[str]) -> None:
        """It is on the page, or comes by itself."""
        expect(self.page.locator("main")).to_contain_text(text)

    def _click(self, what: Locator) -> None:
        what.first.click()
        self._count += 1
