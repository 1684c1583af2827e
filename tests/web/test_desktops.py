"""A user of desktops: a login at a real provider, the own desktop's screen, and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from playwright.sync_api import Browser, expect

from tests.apiserver import ApiServer
from tests.e2e.support import Cli, finish, host, new_cli, pool, until, vm
from tests.npm_provider import npm_provider, provider_settings
from tests.web.conftest import IMAGE
from tests.web.test_stories import colours
from tests.web.visitor import Visitor


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2), **IMAGE))
        entitled = {"groups": ["cad"]}
        cad = pool(tenant="blue", console=True, agent=True, min=1, max=2, entitlement=entitled)
        made.ok("apply", "-f", made.documents(vm("red-vm", "T4-4Q", tenant="red")))
        made.ok("apply", "-f", made.documents(cad))
        made.ok("role", "grant", "group:cad", "tenant-user", "--tenant", "blue")
        serve = made.process("serve")
        until(lambda: made.items("pool", "list")[0]["ready"] > 0, "a desktop")
        yield made
        serve.terminate()
        finish(serve)


@pytest.fixture(scope="module")
def site(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Pages whose users log in at the provider."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, folder = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("provider")
    with npm_provider(folder, f"{url}/login/callback") as issuer:
        yield from _served(cli, issuer, folder, port)


def _served(cli: Cli, issuer: str, folder: Path, port: int) -> Iterator[str]:
    environ = provider_settings(issuer, folder) | {"VGPUMGR_API_LOOPBACK": str(port)}
    with mock.patch.dict(os.environ, environ):
        api = ApiServer(cli)
        yield f"http://127.0.0.1:{port}"
        api.end()


@pytest.fixture
def ada(chromium: Browser, site: str) -> Iterator[Visitor]:
    with Visitor.at(chromium, site) as made:
        made.others = ("127.0.0.1",)  # the provider
        page = made.page
        made.go("/login")
        page.get_by_role("link", name="Log in at 127.0.0.1").click()
        page.locator("input[name=login]").fill("ada")
        page.locator("input[name=password]").fill("any")
        page.get_by_role("button").first.click()
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Log out").wait_for()
        yield made


def test_a_user_connects_to_the_own_desktop_and_releases_it(ada: Visitor, cli: Cli) -> None:
    page = ada.page
    expect(page.get_by_role("heading", name="My desktops")).to_be_visible()
    page.get_by_role("link", name="Connect").click()
    expect(page.locator("#console-state")).to_have_text("Connected.", timeout=30_000)
    until(lambda: colours(page.locator("#screen canvas")) > 2, "a picture")
    assert cli.ok("pool", "show", "cad", "-o", "json").json["items"][0]["user"] == "ada"
    ada.go("/desktops")
    expect(page.get_by_text("You are on it since")).to_be_visible()
    page.locator("#help summary").click()
    expect(page.locator("#help")).to_contain_text("that you are ada")
    desktop = cli.ok("pool", "show", "cad", "-o", "json").json["items"][0]["name"]
    cli.ok("sim", "inject", "h1", "guest", desktop, "address", "10.1.2.9")
    page.get_by_role("button", name="Connect file").click()
    page.get_by_role("button", name="Make it").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name=f"Save {desktop}.rdp").click()
    assert saved.value.suggested_filename == f"{desktop}.rdp"
    page.get_by_role("link", name="Go on").click()
    page.get_by_role("button", name="Release").click()
    page.get_by_role("button", name="Release it").click()
    expect(page.get_by_role("heading", name="done")).to_be_visible()
    until(
        lambda: (
            not any(
                each["user"] for each in cli.ok("pool", "show", "cad", "-o", "json").json["items"]
            )
        ),
        "the end of the session",
    )


def test_a_user_sees_nothing_else(ada: Visitor) -> None:
    page = ada.page
    assert page.locator("nav a").all_inner_texts() == ["My desktops"]
    for path, status in (
        ("/desktops/other/screen", 404),
        ("/vms/red-vm", 404),
        ("/access", 403),
        ("/ask/pool.release?name=cad&user=bob", 403),
        ("/vms", 200),
    ):
        assert ada.go(path) == status, path
        assert "red-vm" not in page.content() or path == "/vms/red-vm", path


def test_a_host_is_drained_with_its_users_named(
    ada: Visitor, chromium: Browser, site: str, cli: Cli
) -> None:
    ada.page.get_by_role("link", name="Connect").click()
    expect(ada.page.locator("#console-state")).to_have_text("Connected.", timeout=30_000)
    desktop = cli.ok("pool", "show", "cad", "-o", "json").json["items"][0]["name"]
    with Visitor.at(chromium, site) as operator:
        operator.log_in(cli)
        page = operator.page
        operator.go(f"/vms/{desktop}")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text(f"ada is at work on {desktop}")).to_be_visible()
        operator.go("/hosts/h1")
        page.get_by_role("button", name="Drain").click()
        plan = page.get_by_role("listitem").filter(has_text=desktop)
        expect(plan).to_contain_text("ada")
        page.get_by_role("link", name="Back", exact=True).click()
        expect(page).to_have_url(f"{site}/hosts/h1")
