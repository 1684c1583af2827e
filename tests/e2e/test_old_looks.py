"""What is shown of a host that does not answer is not said of now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    """A VM that runs on a host which then stops answering, and was asked in vain."""
    with new_cli() as found:
        found.sim_up(host("h1", ("T4", 1)))
        found.ok("apply", "-f", found.documents(vm("web", "T4-2Q")))
        found.ok("sim", "inject", "h1", "unreachable")
        found.fails(6, "host", "probe", "h1")
        yield found


def test_a_vm_on_a_host_that_does_not_answer_is_not_said_to_run(cli: Cli) -> None:
    row = cli.ok("vm", "list").out.splitlines()[1]
    assert "unknown (running " in row
    assert "unreachable" in row
    item = cli.ok("vm", "show", "web", "-o", "json").json
    assert (item["power"], item["power_seen"], item["stale"]) == ("unknown", "running", True)
    assert item["stale_why"] == "unreachable"
    assert item["seen_s"] >= 0
    assert "h1 is unreachable" in cli.ok("vm", "show", "web").out


def test_maps_and_lists_say_that_a_look_is_old(cli: Cli) -> None:
    assert "unreachable, last seen" in cli.ok("map").out
    [drawn] = cli.ok("map", "-o", "json").json["items"]
    assert (drawn["stale"], drawn["stale_why"]) == (True, "unreachable")
    for command in ("gpu", "host"):
        [item] = cli.items(command, "list")
        assert item["stale"], command
    assert "unreachable" in cli.ok("gpu", "list").out


def test_a_fresh_look_is_told_as_it_is(cli: Cli) -> None:
    cli.ok("sim", "inject", "h1", "clear")
    cli.ok("host", "probe", "h1")
    [item] = cli.items("vm", "list")
    assert (item["power"], item["stale"]) == ("running", False)
