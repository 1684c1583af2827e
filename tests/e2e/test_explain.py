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
    assert "was ever asked for" in cli.fails(3, "explain", "nobody").err
    cli.fails(2, "explain")


def test_a_vm_whose_stop_is_said_to_help_makes_room(cli: Cli) -> None:
    full = [vm(name, "T4-8Q", affinity={"hosts": ["one"]}) for name in ("c", "d")]
    cli.ok("apply", "-f", cli.documents(*full))
    wanted = cli.documents(vm("next", "T4-8Q"))
    stop = changes(cli, wanted)["stop"]
    cli.ok(*stop["next"].split()[1:], "--force")
    assert f"would go to {stop['host']}" in cli.ok("explain", "-f", wanted).out
