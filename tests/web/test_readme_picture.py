"""The picture of the map in the README: it is what a browser shows of the demo's fleet."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.apiserver import serving_api
from tests.e2e.support import new_cli
from tests.web.conftest import BUILD
from tests.web.visitor import Visitor

PICTURE = Path(__file__).parents[2] / "docs" / "map.png"
ALIKE = 0.97
"""The share of points that may not differ: fonts are drawn a little otherwise on each machine."""


@pytest.fixture
def demo() -> Iterator[str]:
    with new_cli() as cli:
        cli.ok("sim", "up", "-f", "examples/demo/fleet.yaml")
        cli.ok("host", "set", "--all", "--layout", "auto")
        cli.ok("layout", "apply", "-f", "examples/demo/layout.yaml", "-y")
        cli.ok("apply", "-f", "examples/demo/vms.yaml")
        with serving_api(cli, loopback=True) as api:
            yield api.reading_url


def test_the_picture_is_of_the_demo(chromium: Browser, demo: str) -> None:
    with Visitor.at(chromium, demo) as visitor:
        visitor.page.set_viewport_size({"width": 1120, "height": 760})
        visitor.go("/map")
        expect(visitor.page.locator(".host")).to_have_count(12)
        seen = visitor.page.screenshot()
    if os.environ.get("VGPUMGR_REWRITE_GOLDEN"):
        PICTURE.write_bytes(seen)
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "readme-map.png").write_bytes(seen)
    page = chromium.new_page()
    share = page.evaluate(_ALIKE, [_address(seen), _address(PICTURE.read_bytes())])
    page.close()
    assert share >= ALIKE, "VGPUMGR_REWRITE_GOLDEN=1 makes it again"


def _address(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


_ALIKE = """async ([one, other]) => {
  const points = async (address) => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height).data;
  };
  const [a, b] = await Promise.all([points(one), points(other)]);
  if (a.length !== b.length) return 0;
  let same = 0;
  for (let at = 0; at < a.length; at += 4)
    same += Math.abs(a[at] - b[at]) + Math.abs(a[at + 1] - b[at + 1]) < 48;
  return same / (a.length / 4);
}"""
