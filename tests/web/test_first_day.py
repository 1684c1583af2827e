"""A newcomer's first day with the browser alone: an operator, and a user of desktops.

Who walks knows no command line and types no address. The clicks of each task are those that
docs/web.md tells. The browser is begun last: all is in the network of the new host.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from playwright.sync_api import Browser, expect

from tests import nshosts
from tests.apiserver import ApiServer
from tests.e2e.support import Cli, finish, host, new_cli, pool, until, vm
from tests.npm import installed
from tests.npm_provider import PACKAGE, npm_provider, provider_settings
from tests.web.conftest import IMAGE
from tests.web.test_stories import colours
from tests.web.visitor import Visitor
from tests.web.walk import Walk

pytestmark = [pytest.mark.root, pytest.mark.libvirtd, pytest.mark.thorough]
GUIDE = Path(__file__).parents[2] / "docs" / "web.md"
WANTED = """\
apiVersion: vgpumgr/v1
kind: VM
name: from-file
vcpus: 2
memory: 4GiB
gpus: [{profile: T4-4Q}]
"""


@pytest.fixture(scope="module")
def new_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nshosts.NamespaceHost]:
    """A real host that is not in the fleet; with it, this thread is in its network."""
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = nshosts.NamespaceFleet(1)
    with mock.patch.dict(os.environ, {"VGPUMGR_SSH_CONFIG": str(fleet.ssh_config)}):
        yield fleet.hosts[0]
    fleet.close()


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The provider's folder, filled while there is still a way to the registry."""
    folder = tmp_path_factory.mktemp("provider")
    installed(folder, PACKAGE)
    return folder


@pytest.fixture(scope="module")
def cli(packages: Path, new_host: nshosts.NamespaceHost) -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2), **IMAGE), host("h2", ("A40", 2)), host("h3", ("T4", 2)))
        made.ok("host", "set", "--all", "--layout", "auto")
        builds = [vm(f"build-{n}", "T4-4Q", tenant="red") for n in (1, 2)]
        made.ok("apply", "-f", made.documents(*builds))
        cad = pool(tenant="blue", console=True, min=1, max=1, entitlement={"groups": ["cad"]})
        made.ok("apply", "-f", made.documents(cad))
        made.ok("role", "grant", "user:olga", "admin", "--tenant", "*")
        for user in ("ada", "bob"):
            made.ok("role", "grant", f"user:{user}", "tenant-user", "--tenant", "blue")
        serve = made.process("serve")
        yield made
        serve.terminate()
        finish(serve)


@pytest.fixture(scope="module")
def site(cli: Cli, packages: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with npm_provider(packages, f"{url}/login/callback", install=False) as issuer:
        environ = provider_settings(issuer, packages) | {"VGPUMGR_API_LOOPBACK": str(port)}
        with mock.patch.dict(os.environ, environ):
            api = ApiServer(cli)
        yield url
        api.end()


@contextmanager
def visiting(browser: Browser, site: str, user: str) -> Iterator[Walk]:
    """Somebody who has been told the address, and no more."""
    with Visitor.at(browser, site) as made:
        made.others, made.expected = ("127.0.0.1",), ("willReadFrequently",)
        made.go("/")
        yield Walk(made.page, user)


def log_in(walk: Walk, first: str) -> None:
    """At the provider, whose two pages are not ours."""
    if walk.page.get_by_role("heading", name="Log in").count() == 0:
        walk.link("Log in", walk.page.locator("header"))
    walk.link("Log in at 127.0.0.1")
    walk.page.locator("input[name=login]").fill(walk.name)
    walk.page.locator("input[name=password]").fill("any")
    walk.button("Sign-in")
    walk.button("Continue")
    expect(walk.page.get_by_role("heading", name=first)).to_be_visible()


def ready(cli: Cli) -> bool:
    """Is there a desktop for the next user?"""
    return bool(cli.items("pool", "list")[0]["ready"])


def test_a_user_of_desktops(site: str, chromium: Browser, cli: Cli) -> None:
    until(lambda: ready(cli), "a desktop")
    with visiting(chromium, site, "ada") as ada, visiting(chromium, site, "bob") as bob:
        log_in(ada, "My desktops")
        ada.link("Connect")
        with bob.task("log in, and see the own things alone"):
            log_in(bob, "My desktops")
            assert bob.page.locator("nav a").all_inner_texts() == ["My desktops"]
            assert "build-1" not in bob.page.content()
        expect(ada.page.locator("#console-state")).to_have_text("Connected.")
        with bob.task("ask for a desktop"):
            bob.link("Connect")
            expect(bob.page.locator("#console-state")).to_contain_text("In line")
        with bob.task("wait in line, with the reason"):
            bob.link("My desktops")
            bob.sees(re.compile("number 1 in line since .* because no desktop is ready: all 1"))
            assert "ada" not in bob.page.locator("main").inner_text()
        ada.link("My desktops")
        ada.button("Release")
        ada.button("Release it")
        bob.sees("Yours is cad-")
        with bob.task("connect to the desktop"):
            bob.link("Connect")
            expect(bob.page.locator("#console-state")).to_have_text("Connected.")
            until(lambda: colours(bob.page.locator("#screen canvas")) > 2, "a picture")
        with bob.task("release it"):
            bob.link("My desktops")
            bob.button("Release")
            bob.button("Release it")
            bob.sees("done")
    assert_told(bob)


def test_an_operator(
    site: str, chromium: Browser, cli: Cli, new_host: nshosts.NamespaceHost
) -> None:
    with visiting(chromium, site, "olga") as olga:
        inventory(olga, new_host)
        vms(olga, cli)
        with visiting(chromium, site, "ada") as ada:
            until(lambda: ready(cli), "a desktop")
            log_in(ada, "My desktops")
            ada.link("Connect")
            expect(ada.page.locator("#console-state")).to_have_text("Connected.")
            moves(olga)
        reserves(olga)
        trail(olga, cli)
        with olga.task("grant a colleague a role, who is limited by it"):
            olga.menu("Access")
            olga.button("Grant a role")
            olga.type("To, as user:NAME or group:NAME", "user:carl")
            olga.type("Tenant", "blue")
            olga.choose("Role", "viewer")
            olga.button("Grant")
            olga.sees("done")
        with visiting(chromium, site, "carl") as carl:
            log_in(carl, "Map")
            carl.menu("VMs")
            carl.sees("cad-01")
            assert "build-2" not in carl.page.content()
            assert carl.page.get_by_role("button", name="New VM").count() == 0
            assert "Access" not in carl.page.locator("nav a").all_inner_texts()
    assert_told(olga)


def inventory(olga: Walk, new_host: nshosts.NamespaceHost) -> None:
    """Tasks 1 to 3."""
    with olga.task("log in"):
        log_in(olga, "Map")
    with olga.task("find the host with the most free GPU memory"):
        olga.menu("Hosts")
        olga.link("GPU memory free")
        expect(olga.page.get_by_role("row").nth(1)).to_contain_text("h2")
        expect(olga.page.get_by_role("row").nth(1)).to_contain_text("96 GiB of 96 GiB")
    with olga.task("add a host, and confirm its key"):
        olga.button("Add a host")
        olga.fill(Name="gpu-new", Address=new_host.address())
        olga.button("Add")
        olga.sees(new_host.fingerprint)
        olga.tick("is the key of that host")
        olga.button("Add")
        olga.sees("done")
        olga.link("Go on")
        expect(olga.page.get_by_role("heading", name="gpu-new ready")).to_be_visible()


def vms(olga: Walk, cli: Cli) -> None:
    """Tasks 4 to 7."""
    with olga.task("create a VM with a vGPU from fields"):
        olga.menu("VMs")
        olga.button("New VM")
        olga.fill(Name="first", GPU_parts="A40-8Q", Memory="8GiB")
        olga.button("Show what would happen")
        olga.sees("create first on h2")
        olga.button("Create")
        olga.sees(re.compile("done", re.IGNORECASE))
        olga.link("first")
        expect(olga.page.get_by_role("heading", name="first active")).to_be_visible()
    with olga.task("apply a file, its plan first"):
        olga.menu("Apply")
        olga.fill(Text=WANTED)
        olga.button("Show the plan")
        olga.sees("create from-file on")
        olga.button("Apply")
        expect(olga.page.get_by_role("heading", name="Apply done")).to_be_visible()
    with olga.task("watch the steps of an operation"):
        olga.open("create from-file")
        olga.sees("StartDomain")
        olga.menu("Operations")
        cli.ok("vm", "stop", "build-2", "--force")
        expect(olga.page.get_by_role("row").nth(1)).to_contain_text("stop")  # by itself
    with olga.task("find out why a VM does not fit, and what would help"):
        olga.menu("VMs")
        olga.button("New VM")
        olga.fill(Name="huge", GPU_parts="A40-48Q A40-48Q A40-48Q")
        olga.button("Show what would happen")
        olga.sees("huge fits nowhere")
        olga.sees("huge would fit")


def moves(olga: Walk) -> None:
    """Tasks 8 and 9, while a user is at work."""
    with olga.task("move a VM"):
        olga.menu("VMs")
        olga.link("build-1")
        olga.button("Move")
        olga.choose("To the host", "h3")
        olga.tick("By stopping it")
        olga.button("Show what would happen")
        olga.sees("From h1 to h3")
        olga.button("Move")
        olga.sees("done")
        olga.link("build-1")
        expect(olga.page.get_by_role("definition").first).to_contain_text("h3")
    with olga.task("drain a host, with a user at work named"):
        olga.menu("Hosts")
        olga.link("h1")
        olga.button("Drain")
        olga.sees("ada is on it")
        olga.tick("Move VMs that cannot move")
        olga.button("Show again")
        olga.sees("would be cut off")
        olga.button("Drain")
        olga.sees(re.compile("Still on h1.*ada is on it", re.DOTALL))


def reserves(olga: Walk) -> None:
    """Task 10."""
    with olga.task("make a booking, and change a quota"):
        olga.menu("Bookings")
        olga.button("New booking")
        olga.fill(For_the_group="cad", Profile="T4-4Q", Desktops="1")
        olga.fill(From="2099-12-01T08:00", To="2099-12-01T12:00")
        olga.button("Book")
        olga.sees("done")
        olga.link("Go on")
        olga.sees("T4-4Q")
        olga.menu("Quotas")
        olga.button("Change", olga.row("red"))
        olga.fill(VMs_at_most="5")
        olga.button("Set")
        olga.link("Go on")
        expect(olga.row("red")).to_contain_text("of 5")


def trail(olga: Walk, cli: Cli) -> None:
    """Task 11."""
    cli.ok("vm", "delete", "build-1", "-y", "--force")
    with olga.task("find who deleted a VM, and verify the trail"):
        olga.menu("Trail")
        olga.fill(Event="vm.deleted", VM="build-1")
        olga.button("Show these")
        expect(olga.row("vm.deleted")).to_contain_text("root@")
        olga.link("Check the seal")
        olga.sees("are as they were sealed")


def assert_told(walk: Walk) -> None:
    """The guide has the tasks with as many clicks."""
    lines = "".join(f"| {title} | {clicks} |\n" for title, clicks in walk.clicks.items())
    told = re.findall(r"^\| [^|]+ \| \d+ \|$", GUIDE.read_text(), re.MULTILINE)
    missing = [line for line in lines.splitlines() if line not in told]
    assert missing == [], "docs/web.md tells otherwise"
