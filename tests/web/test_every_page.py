"""Every page in a real browser: as it looks, for who cannot see it, and without a mouse."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.apiserver import ApiServer
from tests.e2e.support import Cli
from tests.web.conftest import BUILD
from tests.web.visitor import Visitor
from vgpumgr.web.pages import DOCUMENTS, PAGES

OWN_SCREEN = "/desktops/{pool}/screen"
PATHS = [
    "/login",
    "/map",
    *(each.path for each in DOCUMENTS),
    *(each.path for each in PAGES if not each.part and each.path != OWN_SCREEN),
]
REACHABLE = "a[href], button, input:not([type=hidden]), select, textarea, [tabindex='0'], summary"


def filled(path: str, cli: Cli) -> str:
    """The page of one thing that there is."""
    parts = {"vm": "desk-a", "host": "h1", "pool": "cad", "image": "disk@1", "queued": "late"}
    parts["profile"] = "docker"
    if "{gpu" in path:
        parts["gpu"] = cli.items("gpu", "list")[0]["name"]
    if "{id}" in path:
        parts["id"] = cli.items("operation", "list")[0]["name"]
    return re.sub(r"{(\w+)(:path)?}", lambda found: parts[found[1]], path)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_page_is_sound(
    chromium: Browser, api: ApiServer, cli: Cli, axe: str, colours: Any
) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    with Visitor.at(chromium, api.reading_url, color_scheme=colours) as visitor:
        visitor.log_in(cli)
        for path in PATHS:
            status = visitor.go(filled(path, cli))
            name = re.sub(r"{|}|:path", "", path.strip("/")).replace("/", "-")
            visitor.page.screenshot(path=BUILD / f"{name}-{colours}.png")
            visitor.page.evaluate(axe)
            told = visitor.page.evaluate("axe.run()")
            bad = [
                f"{each['id']}: {node['html'][:120]}"
                for each in told["violations"]
                for node in each["nodes"]
            ]
            if bad or status != 200:
                found[path] = (status, bad)
    assert found == {}


def test_every_page_is_used_without_a_mouse(operator: Visitor, cli: Cli) -> None:
    wrong = {}
    for path in PATHS:
        operator.go(filled(path, cli))
        operator.page.wait_for_function(_CONNECTED)  # what is connected takes the focus
        wanted = operator.page.evaluate(
            "q => [...document.querySelectorAll(q)].filter(e => !e.disabled && e.checkVisibility()"
            " && !e.closest('.screen, .serial')).length",
            REACHABLE,
        )
        seen = set()
        operator.page.evaluate("document.body.focus()")
        for _ in range(2 * min(wanted, 60) + 6):
            if operator.page.evaluate("!!document.activeElement.closest('.screen, .serial')"):
                operator.page.keyboard.press("Escape")
                operator.page.keyboard.press("Escape")
            operator.page.keyboard.press("Tab")
            seen.add(operator.page.evaluate(_FOCUSED))
            if "hidden" in seen or len(seen - {""}) >= min(wanted, 60):
                break
        if len(seen - {"", "hidden"}) < min(wanted, 60) or "hidden" in seen:
            wrong[path] = (wanted, len(seen), sorted(seen)[:3])
    assert wrong == {}


_CONNECTED = """() =>
  !document.getElementById("console-state")?.textContent.startsWith("Connecting")
"""
_FOCUSED = """() => {
  const it = document.activeElement;
  if (!it || it === document.body) return "";
  const all = [...document.querySelectorAll("*")];
  const styled = getComputedStyle(it.closest(".screen") ?? it);
  const shown = styled.outlineStyle !== "none" || it.matches(".skip:focus");
  return shown ? `${all.indexOf(it)} ${it.tagName}` : "hidden";
}"""


def test_a_narrow_screen_needs_no_sideways_scrolling(
    chromium: Browser, api: ApiServer, cli: Cli
) -> None:
    wide = []
    with Visitor.at(chromium, api.reading_url) as visitor:
        visitor.log_in(cli)
        visitor.page.set_viewport_size({"width": 400, "height": 800})
        for path in PATHS:
            visitor.go(filled(path, cli))
            if visitor.page.evaluate("document.documentElement.scrollWidth") > 400:
                wide.append(path)
    assert wide == []
