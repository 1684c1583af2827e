"""``vgpumgr doctor HOST`` over real SSH: with the helper, without it, and with one that is gone."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

import pytest

from tests import nshosts
from tests.e2e.support import Cli, new_cli

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]


@pytest.fixture(scope="module")
def host() -> Iterator[nshosts.NamespaceHost]:
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = nshosts.NamespaceFleet(1)
    yield fleet.hosts[0]
    fleet.close()


@pytest.fixture
def cli(host: nshosts.NamespaceHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv("VGPUMGR_SSH_CONFIG", str(host.ssh_config))
    with new_cli() as made:
        yield made
        made.ok("host", "remove", "h1", "-y")


def enrol(cli: Cli, host: nshosts.NamespaceHost, user: str, *flags: str) -> None:
    address = ("--address", host.address(user), "--fingerprint", host.fingerprint)
    cli.ok("host", "add", "h1", *address, *flags)


def findings(cli: Cli) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in cli("doctor", "h1", "-o", "json").json["items"]}


@contextlib.contextmanager
def gone(host: nshosts.NamespaceHost) -> Iterator[None]:
    """The installed helper is not there."""
    there, aside = (host.path(f"/usr/local/lib/vgpumgr{end}") for end in ("", ".aside"))
    shutil.move(there, aside)
    try:
        yield
    finally:
        shutil.move(aside, there)


def test_an_installed_helper_tells_and_once_it_is_gone_one_that_travels_does(
    cli: Cli, host: nshosts.NamespaceHost
) -> None:
    enrol(cli, host, "root")
    found = findings(cli)
    assert [found[check]["mark"] for check in ("helper", "sudo")] == ["ok", "ok"]
    assert found["boot restore"]["mark"] == "unknown"
    assert "systemd" in found["boot restore"]["text"]
    assert found["clock"]["mark"] in {"ok", "warn"}, "both clocks are this machine's"
    with gone(host):
        found = findings(cli)
    assert (found["helper"]["mark"], found["helper"]["text"]) == ("bad", "not installed")
    assert "--bootstrap" in found["helper"]["next"]
    assert found["nesting"]["mark"] != "unknown"


def test_a_host_that_is_only_looked_at_gives_a_partial_table(
    cli: Cli, host: nshosts.NamespaceHost
) -> None:
    enrol(cli, host, "gpuadm", "--no-install")
    found = findings(cli)
    assert found["helper"]["mark"] == "warn"
    assert "probe-only" in found["helper"]["text"]
    assert found["sudo"]["mark"] in {"ok", "unknown"}
    assert found["nesting"]["mark"] != "unknown"
    assert found["clock"]["mark"] in {"ok", "warn"}
