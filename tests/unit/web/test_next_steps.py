"""What helps, as pages show it: links where there are pages, commands otherwise."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from vgpumgr.api.parameters import all_parameters
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.web.next_steps import _PAGES, NextStep, next_steps
from vgpumgr.web.pages import PAGES, QUESTIONS


@pytest.mark.parametrize(
    ("hint", "parts"),
    [
        ("wait", [NextStep("wait")]),
        (
            "vgpumgr vm delete a --force",
            [NextStep("vgpumgr vm delete a --force", command=True)],
        ),
        ("vgpumgr host drain h1", [NextStep("drain h1", href="/ask/host.drain?name=h1")]),
        (
            "vgpumgr map, vgpumgr capacity: free capacity, then the same command again",
            [
                NextStep("the map", href="/map"),
                NextStep(", "),
                NextStep("Capacity", href="/capacity"),
                NextStep(": free capacity, then the same command again"),
            ],
        ),
        (
            "vgpumgr pool show cad says who is; name the user's groups with --group",
            [
                NextStep("pool cad", href="/pools/cad"),
                NextStep(" says who is; name the user's groups with --group"),
            ],
        ),
        (
            "free capacity, then vgpumgr host evacuate h1",
            [
                NextStep("free capacity, then "),
                NextStep("evacuate h1", href="/ask/host.evacuate?name=h1"),
            ],
        ),
        (
            "vgpumgr host drain --help",
            [NextStep("vgpumgr host drain --help", command=True)],
        ),
    ],
)
def test_a_hint_has_parts(hint: str, parts: list[NextStep]) -> None:
    assert list(next_steps(hint)) == parts


@pytest.mark.parametrize("href", sorted({href for _, href, _ in _PAGES}))
def test_each_link_leads_to_a_page(href: str) -> None:
    path = urlsplit(href.format("x")).path
    if path.startswith("/ask/"):
        name = path.removeprefix("/ask/")
        assert name in QUESTIONS
        known = all_parameters(ENDPOINTS[name]).model_fields
        assert {key for key, _ in parse_qsl(urlsplit(href).query)} <= set(known)
        return
    patterns = [re.sub(r"{\w+(:path)?}", "[^/]+", each.path) for each in PAGES]
    assert path == "/map" or any(re.fullmatch(each, path) for each in patterns)
