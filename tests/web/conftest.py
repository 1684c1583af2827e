"""A simulated fleet with all that pages show, an API over it, and a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import Cli, host, new_cli, pool, vm
from tests.npm import installed
from tests.unit.images.files import qcow2
from tests.web.visitor import Visitor

BUILD = Path(__file__).parents[2] / "build" / "web"
expect.set_options(timeout=30_000)
IMAGE = {"images": ["cad@1.qcow2"]}


@pytest.fixture(scope="session")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(
            host("h1", ("T4", 2), **IMAGE),
            host("h2", ("A40", 2), ("A100-PCIE-80GB", 1)),
            host("h3", ("T4", 1)),
        )
        desk = vm("desk-a", "T4-4Q", console=True, tenant="blue")
        made.ok("apply", "-f", made.documents(desk, vm("desk-b", "T4-4Q"), vm("plain")))
        image = made.folder / "disk.qcow2"
        image.write_bytes(qcow2())
        made.ok("image", "import", str(image), "--name", "disk", "--host", "h1")
        made.ok("apply", "-f", made.documents(pool(tenant="blue", console=True, min=1, max=2)))
        waits = vm("late", "A40-48Q", queue={})
        made.ok("apply", "-f", made.documents(waits))
        made.ok("audit", "seal")
        yield made


@pytest.fixture(scope="session")
def api(cli: Cli) -> Iterator[ApiServer]:
    with serving_api(cli, loopback=True) as server:
        yield server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser; with it ends the event loop that Playwright keeps in this thread."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        words = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=words)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    folder = installed(tmp_path_factory.mktemp("axe"), "axe-core@4")
    return (folder / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def visitor(chromium: Browser, api: ApiServer) -> Iterator[Visitor]:
    """Somebody without a login."""
    with Visitor.at(chromium, api.reading_url) as made:
        yield made


@pytest.fixture
def operator(visitor: Visitor, cli: Cli) -> Visitor:
    """Who may do everything."""
    visitor.log_in(cli)
    return visitor
