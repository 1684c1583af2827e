"""VMs that go to another GPU of their own host: to make room, or because theirs is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, new_cli, vm

ONE = ("--for", "T4-8Q", "--count", "1")
MIXES = ("", "[{gpus: [{profile: T4-8Q}]}]", "[{gpus: [{profile: T4-4Q}]}]")


@pytest.fixture
def cli() -> Iterator[Cli]:
    """One host with two GPUs, a quarter of each taken."""
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2)))
        for name in ("a", "b"):
            made.ok("apply", "-f", made.documents(vm(name, "T4-4Q", policy="breadth-first")))
        yield made


def part(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cli.ok("vm", "show", name, "-o", "json").json
    return found


@pytest.mark.parametrize("mix", MIXES)
def test_one_cold_move_within_the_host_makes_room(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, mix: str
) -> None:
    if mix:
        monkeypatch.setenv("VGPUMGR_MIX", mix)
    shown = cli("defrag", "plan", *ONE, "--allow-cold", "-o", "json")
    assert shown.code == 0, shown.err
    [move] = shown.json["moves"]
    assert (move["from"], move["to"], move["how"]) == ("h1", "h1", "cold")
    assert move["mib"] == 0, "no disk is copied"
    before = {name: part(cli, name) for name in ("a", "b")}
    xml = cli.ok("vm", "xml", move["name"]).out
    cli.ok("defrag", "apply", *ONE, "--allow-cold", "-y")
    after = {name: part(cli, name) for name in ("a", "b")}
    assert after[move["name"]]["gpus"][0]["gpu"] != before[move["name"]]["gpus"][0]["gpu"]
    assert after["a"]["gpus"][0]["gpu"] == after["b"]["gpus"][0]["gpu"]
    assert {each["power"] for each in after.values()} == {"running"}
    for kept in ("id", "volumes", "host"):
        assert after[move["name"]][kept] == before[move["name"]][kept]
    macs = [line.strip() for line in xml.splitlines() if "<mac " in line or "<uuid>" in line]
    assert macs
    assert all(line in cli.ok("vm", "xml", move["name"]).out for line in macs)
    cli.ok("apply", "-f", cli.documents(vm("big", "T4-8Q")))
    assert cli.ok("drift").code == 0
    assert "no problem found" in cli.ok("store", "check").out


def test_a_quota_that_is_used_up_keeps_nobody_from_a_move(cli: Cli) -> None:
    cli.ok("quota", "set", "default", "--vms", "2", "--vcpus", "2", "--gpu-memory", "8GiB")
    cli.ok("defrag", "apply", *ONE, "--allow-cold", "-y")
    cli.fails(5, "apply", "-f", cli.documents(vm("more", "T4-4Q")))


def test_running_it_is_not_moved_without_the_word(cli: Cli) -> None:
    refused = cli.fails(5, "defrag", "plan", *ONE)
    assert "--allow-cold: 1 move would be enough" in refused.err


def test_a_vm_that_is_off_moves_and_stays_off(cli: Cli) -> None:
    cli.ok("vm", "stop", "a", "b", "--force")
    [move] = cli.ok("defrag", "plan", *ONE, "-o", "json").json["moves"]
    assert move["how"] == "off"
    cli.ok("defrag", "apply", *ONE)
    assert part(cli, "a")["gpus"][0]["gpu"] == part(cli, "b")["gpus"][0]["gpu"]
    assert part(cli, move["name"])["power"] == "shutoff"
    cli.ok("vm", "start", "a", "b")
    assert cli.ok("drift").code == 0


@pytest.mark.parametrize("step", ["mdev_create", "mdev_remove"])
def test_a_move_that_a_host_refuses_loses_nothing(cli: Cli, step: str) -> None:
    """Before it is settled it is taken back; after that it goes on."""
    [move] = cli.ok("defrag", "plan", *ONE, "--allow-cold", "-o", "json").json["moves"]
    before = part(cli, move["name"])["gpus"][0]["gpu"]
    cli.ok("sim", "inject", "h1", "refuse", step, "EIO", "1")
    cli.fails(7, "defrag", "apply", *ONE, "--allow-cold", "-y")
    assert part(cli, move["name"])["power"] == "running"
    if step == "mdev_create":
        assert part(cli, move["name"])["gpus"][0]["gpu"] == before
        refused = {"a": "b", "b": "a"}[move["name"]]
        cli.ok("heal", "--lift", part(cli, refused)["gpus"][0]["gpu"], "-y")  # ends its back-off
    cli("defrag", "apply", *ONE, "--allow-cold", "-y")
    assert part(cli, "a")["gpus"][0]["gpu"] == part(cli, "b")["gpus"][0]["gpu"]
    assert cli.ok("drift").code == 0
    assert "no problem found" in cli.ok("store", "check").out


@pytest.mark.parametrize("fault", ["lost", "ecc"])
def test_a_start_goes_to_another_gpu_where_its_own_is_gone(cli: Cli, fault: str) -> None:
    cli.ok("vm", "stop", "a", "--force")
    shown = part(cli, "a")["gpus"][0]
    device = next(
        each["device"] for each in cli.items("gpu", "list") if each["name"] == shown["gpu"]
    )
    cli.ok("sim", "inject", "h1", "gpu", device, fault)
    cli.ok("host", "probe", "h1")
    started = cli.ok("vm", "start", "a")
    now = part(cli, "a")
    assert now["gpus"][0]["gpu"] != shown["gpu"]
    assert now["gpus"][0]["gpu"] == part(cli, "b")["gpus"][0]["gpu"]
    assert now["power"] == "running"
    assert "a: " in started.err
    assert "it is placed again: T4-4Q on T4" in started.err


def test_one_figure_of_fragmentation(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for mix in MIXES:
        if mix:
            monkeypatch.setenv("VGPUMGR_MIX", mix)
        gauge = cli.ok("capacity", "--stranded", "-o", "json").json["share"]
        planned = cli("defrag", "plan", "--allow-cold", "-o", "json").json
        assert planned["fragmentation"]["before"] == gauge


def test_what_is_seldom_asked_for_counts_in_every_figure() -> None:
    """Nineteen of twenty asked for a quarter, one for a half: that one is rare, and counts."""
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 7)))
        small = vm("small", "T4-4Q", replicas=21, policy="depth-first")
        cli.ok("apply", "-f", cli.documents(small, vm("half", "T4-8Q"), name="all.yaml"))
        cli.ok("vm", "delete", *(f"small-{n:02d}" for n in range(2, 21)), "--force", "-y")
        gauge = cli.ok("capacity", "--stranded", "-o", "json").json["share"]
        planned = cli("defrag", "plan", "--allow-cold", "-o", "json").json
        assert planned["fragmentation"]["before"] == gauge
