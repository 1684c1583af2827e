"""Two fleets share a host, and somebody on a host says what is not so: neither stops the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, vm
from vgpumgr.model.host import HostRecord
from vgpumgr.sim.sim_client import SimHosts
from vgpumgr.sim.transport.fleet_socket import socket_path

pytestmark = pytest.mark.mainline


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("h1", ("T4", 1)), host("h2", ("T4", 1)))
        yield found


def another(first: Cli) -> Cli:
    """A second fleet on the hosts of the first: a state folder, and so a ledger, of its own."""
    second = Cli(first.folder / "second")
    second.state.mkdir(parents=True, mode=0o700)
    shutil.copytree(first.state / "sim", second.state / "sim")
    socket_path(second.state / "sim").symlink_to(socket_path(first.state / "sim"))
    second.ok("host", "add", "h1", "--address", "sim://h1")
    return second


def speak(cli: Cli, name: str, fleet: str, epoch: int) -> None:
    """Call the helper of a host as anybody can who may call it there."""
    hosts = SimHosts(cli.state / "sim", identity=lambda: (fleet, epoch))
    try:
        record = next(each for each in cli.items("host", "list") if each["name"] == name)
        hosts.open(HostRecord(name=name, address=record["address"])).helper.call("fleet_join", {})
    finally:
        hosts.close()


def test_an_epoch_of_one_fleet_says_nothing_to_another(cli: Cli) -> None:
    second = another(cli)
    cli.ok("apply", "-f", cli.documents(vm("ours", "T4-4Q", affinity={"hosts": ["h1"]})))
    second.ok("store", "backup", str(second.folder / "backup.sqlite"))
    second.ok("store", "restore", str(second.folder / "backup.sqlite"), "-y")
    second.ok("store", "thaw", "--apply", "-y")
    second.ok("apply", "-f", second.documents(vm("theirs", "T4-4Q"), name="../theirs.yaml"))
    cli.ok("host", "probe")
    assert "frozen" not in cli("store", "check").out
    cli.ok("apply", "-f", cli.documents(vm("more", "T4-4Q", affinity={"hosts": ["h1"]})))
    cli.ok("vm", "delete", "ours", "--force", "-y")


def test_the_device_of_another_fleet_is_named_as_that(cli: Cli) -> None:
    second = another(cli)
    second.ok("apply", "-f", second.documents(vm("theirs", "T4-4Q"), name="../theirs.yaml"))
    cli.ok("host", "probe")
    told = cli("drift").out
    assert "claimed by fleet" in told and "for theirs" in told
    assert "remove" not in told


def test_an_epoch_that_nobody_can_have_reached_sets_that_host_aside(cli: Cli) -> None:
    fleet = cli.ok("store", "check", "-o", "json").json["fleet"]
    speak(cli, "h1", fleet, 900_000_000)
    told = cli("host", "probe")
    assert "h1 was cordoned" in told.out + told.err
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-4Q")))
    assert [each["host"] for each in cli.items("vm", "list")] == ["h2"]


def test_a_fleet_goes_on_without_a_host_that_is_not_believed(cli: Cli) -> None:
    fleet = cli.ok("store", "check", "-o", "json").json["fleet"]
    speak(cli, "h1", fleet, 7)
    cli("host", "probe")
    assert "frozen" in cli.fails(4, "apply", "-f", cli.documents(vm("web", "T4-4Q"))).err
    cli.ok("store", "thaw", "--apply", "-y", "--without", "h1")
    cli("host", "probe")
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-4Q")))
    assert [each["host"] for each in cli.items("vm", "list")] == ["h2"]


def test_another_fleets_epoch_freezes_nobody(cli: Cli) -> None:
    speak(cli, "h1", "mallory", 1_000_000_000)
    cli.ok("host", "probe")
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-4Q")))
