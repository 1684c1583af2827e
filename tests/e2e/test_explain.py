"""Why a request does not fit, and that what is said to help does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, vm

pytestmark = pytest.mark.mainline


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """Two hosts with half a T4 taken on each, and one whose A40 has no VFs yet."""
    with new_cli() as found:
        found.sim_up(
            host("one", ("T4", 1)),
            host("two", ("T4", 1)),
            host("three", ("A40", 1)),
        )
        halves = [vm(name, "T4-8Q", policy="breadth-first") for name in ("a", "b")]
        found.ok("apply", "-f", found.documents(*halves))
        yield found


def changes(cli: Cli, file: str) -> dict[str, dict[str, str]]:
    explained = cli.fails(5, "explain", "-f", file, "-o", "json").json
    (item,) = explained["items"]
    return {change["kind"]: change for change in item["changes"]}


def test_a_layout_that_is_said_to_help_does(cli: Cli) -> None:
    wanted = cli.documents(vm("paint", "A40-8Q"))
    hint = cli.fails(5, "apply", "-f", wanted, "-o", "json").error["next"]
    assert hint.partition("   (")[0] == f"vgpumgr explain -f {wanted} --vm paint", "can be typed"
    layout = changes(cli, wanted)["layout"]
    assert layout["host"] == "three"
    cli.ok("layout", "apply", "-f", cli.file(layout["next"], "layout.yaml"), "-y")
    assert "fits: would go to three" in cli.ok("explain", "-f", wanted).out
    cli.ok("apply", "-f", wanted)
    cli.ok("delete", "-f", wanted, "--force", "-y")


def test_a_move_that_is_said_to_help_does_and_nothing_was_changed_before(cli: Cli) -> None:
    wanted = cli.documents(vm("whole", "T4-16Q"))
    before = cli.items("allocation", "list")
    found = changes(cli, wanted)
    assert {"move", "stop", "smaller-gpu-part", "host"} <= found.keys()
    assert cli.items("allocation", "list") == before
    program, *words = found["move"]["next"].split()
    assert program == "vgpumgr"
    cli.ok(*words, "--cold")
    assert f"would go to {found['move']['host']}" in cli.ok("explain", "-f", wanted).out


def test_what_was_said_of_a_refused_request_is_kept(cli: Cli) -> None:
    cli.fails(5, "apply", "-f", cli.documents(vm("big", "T4-8Q", vcpus=512)))
    (kept,) = cli.fails(5, "explain", "big", "-o", "json").json["items"]
    assert kept["line"].startswith("big fits nowhere: ")
    assert {reason["code"] for reason in kept["reasons"]} >= {"vcpus"}
    assert [change["kind"] for change in kept["changes"]] == ["vcpus"]
    text = cli.fails(5, "explain", "big").out
    assert "it fits with vcpus: " in text
    cli.fails(5, "apply", "-f", cli.documents(vm("many", "T4-8Q", vcpus=512, replicas=3)))
    (first,) = cli.fails(5, "explain", "many-01", "-o", "json").json["items"]
    (last,) = cli.fails(5, "explain", "many-03", "-o", "json").json["items"]
    assert last["vm"] == "many-03"
    assert (last["reasons"], last["changes"]) == (first["reasons"], first["changes"])
    assert "a fits: it goes to" in cli.ok("explain", "a", "-o", "json").json["items"][0]["line"]
    assert "was ever requested" in cli.fails(3, "explain", "nobody").err
    cli.fails(2, "explain")


def test_a_vm_whose_stop_is_said_to_help_makes_room(cli: Cli) -> None:
    full = [vm(name, "T4-8Q", affinity={"hosts": ["one"]}) for name in ("c", "d")]
    cli.ok("apply", "-f", cli.documents(*full))
    wanted = cli.documents(vm("next", "T4-8Q"))
    stop = changes(cli, wanted)["stop"]
    cli.ok(*stop["next"].split()[1:], "--force")
    assert f"would go to {stop['host']}" in cli.ok("explain", "-f", wanted).out


# -- as plan and apply decide ------------------------------------------------------------------


def test_a_quota_that_refuses_is_what_explain_says_first(cli: Cli) -> None:
    """The tenant holds the one GPU part that it may."""
    cli.ok("quota", "set", "render", "--gpus", "1")
    cli.ok("apply", "-f", cli.documents(vm("r1", "A40-8Q", tenant="render")))
    wanted = cli.documents(vm("r2", "A40-8Q", tenant="render"))
    assert "tenant render: " in cli.fails(5, "plan", "-f", wanted).out
    (found,) = cli.fails(5, "explain", "-f", wanted, "-o", "json").json["items"]
    assert [each["code"] for each in found["reasons"]][:2] == ["quota", "fits"]
    (change,) = found["changes"]
    cli.ok(*change["next"].split()[1:])
    assert "fits: would go to three" in cli.ok("explain", "-f", wanted).out
    cli.ok("quota", "delete", "render")
    cli.ok("vm", "delete", "r1", "--force", "-y")


def test_the_rest_of_a_file_is_placed_beside_the_one_that_is_explained(cli: Cli) -> None:
    """What `apply` prints as next explains the VM that it refused, not that VM alone."""
    wanted = cli.documents(vm("s", "A40-8Q", replicas=7))
    hint = cli.fails(5, "apply", "-f", wanted, "-o", "json").error["next"]
    command = hint.partition("; or ")[0]
    assert command == f"vgpumgr explain -f {wanted} --vm s-07"
    (found,) = cli.fails(5, *command.split()[1:], "-o", "json").json["items"]
    assert (found["vm"], found["host"]) == ("s-07", None)
    first, *_, last = cli.fails(5, "explain", "-f", wanted, "-o", "json").json["items"]
    assert (first["vm"], first["host"], last["vm"]) == ("s-01", "three", "s-07")
    assert "--vm s-07" in cli.fails(3, "explain", "-f", wanted, "--vm", "s-08").err


def test_a_vm_that_waits_in_the_queue_is_explained(cli: Cli) -> None:
    wanted = cli.documents(vm("late", "T4-16Q", queue={}))
    assert "late would wait in the queue, position 1" in cli.fails(5, "explain", "-f", wanted).out
    cli.ok("apply", "-f", wanted)
    for words in (("late",), ("-f", wanted)):
        (found,) = cli.fails(5, "explain", *words, "-o", "json").json["items"]
        assert (
            found["standing"] == "waits in the queue, position 1: no host has enough free capacity"
        )
        assert found["reasons"][0]["model"] == "T4"
        assert "stop" in {each["kind"] for each in found["changes"]}
    cli.ok("delete", "-f", wanted, "-y")


def test_more_room_is_no_help_to_a_vm_that_its_quota_keeps_waiting(cli: Cli) -> None:
    cli.ok("quota", "set", "render", "--gpu-memory", "4GiB")
    wanted = cli.documents(vm("over", "T4-16Q", tenant="render", queue={}))
    cli.ok("apply", "-f", wanted)
    for words in (("over",), ("-f", wanted)):
        (found,) = cli.fails(5, "explain", *words, "-o", "json").json["items"]
        assert "tenant render: GPU memory" in found["standing"]
        assert found["changes"] == [], "with a VM stopped its quota still keeps it waiting"
    cli.ok("delete", "-f", wanted, "-y")
    cli.ok("quota", "delete", "render")


def test_what_matters_is_the_first_that_is_said(cli: Cli) -> None:
    """A T4 that lacks room is nearer than an A40, which could never do it."""
    wanted = cli.documents(vm("whole", "T4-16Q", replicas=2))
    for command in (("plan", "-f", wanted), ("simulate", "-f", wanted)):
        lines = cli.fails(5, *command).out.splitlines()
        head = next(n for n, line in enumerate(lines) if "whole" in line and "and 1 more" in line)
        assert ["T4 " in line for line in lines[head + 1 : head + 3]] == [True, False]
    (found,) = cli.fails(5, "explain", "-f", wanted, "--vm", "whole-01", "-o", "json").json["items"]
    assert [each["model"] for each in found["reasons"]] == ["T4", "T4", "A40"]
    assert found["line"].startswith("whole-01 fits nowhere: 2 × ")
