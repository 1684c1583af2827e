"""Hosts at the command line: enrol, cordon, remove; and what doctor finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, names, new_cli, vm


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)), host("dark", iommu=False))
        yield found


@pytest.fixture
def cli(fleet: Cli) -> Iterator[Cli]:
    """The fleet with all its hosts, healthy, uncordoned and empty after every test."""
    yield fleet
    for name in ("one", "two", "dark"):
        fleet.ok("sim", "inject", name, "clear")
        if name not in names(fleet.items("host", "list")):
            fleet.ok("host", "add", name, "--address", f"sim://{name}")
    fleet.ok("host", "uncordon", "one", "two", "dark")
    for name in names(fleet.items("vm", "list", "--refresh")):
        fleet.ok("vm", "delete", name, "--force", "-y")


def states(cli: Cli) -> dict[str, str]:
    return {item["name"]: item["state"] for item in cli.items("host", "list")}


def findings(cli: Cli, code: int) -> dict[str, dict[str, Any]]:
    ran = cli("doctor", "-o", "json")
    assert ran.code == code, ran.err
    bad = [each for each in ran.json["items"] if not each["ok"]]
    return {each["check"]: each for each in bad}


def test_nothing_is_placed_on_a_cordoned_host(cli: Cli) -> None:
    cli.ok("host", "cordon", "one")
    assert states(cli) == {"one": "cordoned", "two": "ready", "dark": "ready"}
    cli.ok("apply", "-f", cli.documents(vm("a", "T4-16Q")))
    assert cli.ok("vm", "show", "a", "-o", "json").json["host"] == "two"
    refused = cli.fails(5, "vm", "create", "b", "--profile", "T4-16Q")
    assert "cordoned" in refused.err
    cli.ok("host", "uncordon", "one")
    cli.ok("vm", "create", "b", "--profile", "T4-16Q")
    assert cli.ok("vm", "show", "b", "-o", "json").json["host"] == "one"


def test_what_runs_on_a_cordoned_host_stays_and_can_be_managed(cli: Cli) -> None:
    cli.ok("host", "cordon", "two", "dark")
    cli.ok("vm", "create", "a", "--profile", "T4-4Q")
    cli.ok("host", "cordon", "one")
    assert [item["power"] for item in cli.items("vm", "list")] == ["running"]
    cli.ok("vm", "reboot", "a", "--force")
    cli.ok("vm", "delete", "a", "--force", "-y")


@pytest.mark.parametrize(
    "flags", [["one", "--address", "sim://three"], ["three", "--address", "sim://one"]]
)
def test_a_host_is_enrolled_once(cli: Cli, flags: list[str]) -> None:
    failed = cli.fails(4, "host", "add", *flags)
    assert "enrolled already" in failed.err
    assert "next: vgpumgr host show one" in failed.err


def test_a_host_that_is_not_there_is_not_enrolled(cli: Cli) -> None:
    failed = cli.fails(6, "host", "add", "three", "--address", "sim://three")
    assert "three" in failed.err
    assert "three" not in names(cli.items("host", "list"))


def test_hosts_of_a_file_are_enrolled(cli: Cli) -> None:
    cli.ok("host", "remove", "one", "-y")
    given = cli.documents(
        {"kind": "Host", "name": "one", "address": "sim://one", "labels": {"r": "1"}}
    )
    assert "one: 1 GPU" in cli.ok("host", "add", "-f", given).err
    assert names(cli.items("host", "list", "-l", "r=1")) == ["one"]


def test_removing_asks_is_refused_while_in_use_and_then_done(cli: Cli) -> None:
    cli.ok("host", "cordon", "two")
    cli.ok("vm", "create", "a", "--profile", "T4-4Q")
    assert "add -y" in cli.fails(2, "host", "remove", "one").err
    assert "1 VM, 1 allocation" in cli.fails(4, "host", "remove", "one", "-y").err
    assert cli.fails(4, "host", "remove", "one", "-y", "--forget")
    cli.ok("vm", "delete", "a", "--force", "-y")
    cli.ok("host", "remove", "one", "-y")
    assert "one" not in states(cli)
    assert {gpu["host"] for gpu in cli.items("gpu", "list")} == {"two"}
    cli.ok("host", "add", "one", "--address", "sim://one")
    assert states(cli)["one"] == "ready"


def test_a_gpu_keeps_its_key_when_its_host_comes_back(cli: Cli) -> None:
    before = names(cli.items("gpu", "list", "--host", "one"))
    cli.ok("host", "remove", "one", "-y")
    cli.ok("host", "add", "one", "--address", "sim://one")
    assert names(cli.items("gpu", "list", "--host", "one")) == before


def test_probing_some_hosts_tells_what_they_show(cli: Cli) -> None:
    assert "one: 1 GPU, 0 domains" in cli.ok("host", "probe", "one").err
    assert cli.ok("host", "probe").err.count("GPU") == 3


def test_doctor_finds_what_is_wrong_and_names_the_command_that_helps(cli: Cli) -> None:
    found = findings(cli, 7)
    assert set(found) == {"host dark"}
    assert "IOMMU is off" in found["host dark"]["text"]
    cli.ok("vm", "create", "a", "--profile", "T4-4Q")
    on = cli.ok("vm", "show", "a", "-o", "json").json["host"]
    other = "two" if on == "one" else "one"
    cli.ok("sim", "inject", on, "reboot")
    cli.ok("sim", "inject", other, "unreachable")
    found = findings(cli, 7)
    assert found["vm a"]["next"] == "vgpumgr vm start a"
    assert found[f"host {other}"]["next"]


def test_doctor_on_a_healthy_fleet_is_content() -> None:
    with new_cli() as cli:
        cli.sim_up(host("one", ("T4", 1)))
        assert findings(cli, 0) == {}
        assert "BAD" not in cli.ok("doctor").out


def test_a_fleet_that_is_down_is_unreachable(cli: Cli) -> None:
    fleet = cli.folder / "fleet.yaml"
    cli.ok("sim", "down")
    try:
        assert cli.ok("sim", "status", "-o", "json").json["up"] is False
        assert len(cli.items("vm", "list")) == 0
        failed = cli.fails(6, "apply", "-f", cli.documents(vm("a")), "-o", "json")
        assert failed.error["code"] == "host.unreachable"
        cli.fails(6, "host", "probe")
        cli.fails(6, "host", "probe", "one")
        assert set(states(cli).values()) == {"unreachable"}
        cli.fails(6, "sim", "inject", "one", "hang")
    finally:
        cli.ok("sim", "up", "-f", str(fleet))
    assert set(states(cli).values()) == {"ready"}


@pytest.mark.parametrize(
    "fault", [["explode"], ["latency"], ["latency", "soon"], ["refuse", "mdev_create", "EIO"]]
)
def test_a_fault_that_is_none_is_a_usage_error(cli: Cli, fault: list[str]) -> None:
    assert "latency SECONDS" in cli.fails(2, "sim", "inject", "one", *fault).err


def test_another_fleet_cannot_be_put_over_one_that_is_up(cli: Cli) -> None:
    given = cli.documents({"kind": "Fleet", "name": "other", "hosts": [host("x")]})
    assert "vgpumgr sim down" in cli.fails(4, "sim", "up", "-f", given).err
