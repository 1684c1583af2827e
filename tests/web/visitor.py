"""A user at a browser, who notices what must not happen on any page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

from tests.e2e.support import Cli

_NUMBERS = count()


class Visitor:
    """A page of a browser with its own cookies. ``faults`` has what scripts said, what the content
    security policy kept back, and requests to other places; not what is ``expected``, nor requests
    to the hosts ``others``.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.number = next(_NUMBERS)
        self.faults: list[str] = []
        self.expected: tuple[str, ...] = ()
        self.others: tuple[str, ...] = ()
        page.on("console", lambda said: self._console(said.type, said.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self._request(request.url))

    @classmethod
    @contextmanager
    def at(cls, browser: Browser, url: str, **how: Any) -> Iterator[Visitor]:
        """Somebody new; afterwards there must have been no fault."""
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **how)
        context.set_default_timeout(60_000)
        made = cls(context.new_page(), url)
        yield made
        context.close()
        assert made.faults == [], made.faults

    def go(self, path: str) -> int:
        """Open the page of that path; its status."""
        answer = self.page.goto(self.url + path)
        assert answer is not None
        return answer.status

    def log_in(self, cli: Cli, role: str = "admin") -> None:
        """Log in with a new API token of that role."""
        named = ("token", "create", f"web-{self.number}", "--role", role)
        token = cli.ok(*named, "-o", "json").json["secret"]
        self.go("/login")
        self.page.get_by_label("API token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()

    def _console(self, kind: str, text: str) -> None:
        # A page that is not found is told of there too.
        # That its picture is looked at often is the test's doing.
        ours = ("Failed to load resource", "Canvas2D: Multiple readback")
        known = any(each in text for each in (*ours, *self.expected))
        if kind in {"error", "warning"} and not known:
            self.faults.append(text)

    def _request(self, url: str) -> None:
        where = urlsplit(url)
        own = urlsplit(self.url)
        if urlsplit(self.page.url).netloc not in {own.netloc, ""}:
            return  # another site's page asks
        known = where.netloc == own.netloc or where.hostname in self.others
        if where.scheme not in {"data", "blob"} and not known:
            self.faults.append(f"it asked {url}")
