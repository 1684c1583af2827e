"""``vgpumgr defrag`` as a user types it: a fragmented fleet, a request refused, and room made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, names, new_cli, vm

pytestmark = pytest.mark.mainline

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
BIG = ("--for", "T4-16Q")


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cli]:
    """Two hosts alike with two GPUs each; only h2 takes running VMs."""
    with new_cli() as found:
        found.sim_up(*(host(f"h{n}", ("T4", 2), versions=NEW) for n in (1, 2)))
        found.ok("host", "migration", "h2", "--address", "h2")
        yield found


@pytest.fixture
def cli(fleet: Cli) -> Iterator[Cli]:
    """One VM with a quarter of a GPU on each of the four."""
    documents = [vm(name, "T4-4Q", policy="breadth-first") for name in ("a", "b", "c", "d")]
    fleet.ok("apply", "-f", fleet.documents(*documents))
    assert sorted(where(fleet).values()) == ["h1", "h1", "h2", "h2"]
    yield fleet
    fleet.ok("vm", "delete", *names(fleet.items("vm", "list")), "--force", "-y")


def where(cli: Cli) -> dict[str, str]:
    return {each["name"]: each["host"] for each in cli.items("vm", "list")}


def test_what_did_not_fit_fits_after_the_moves(cli: Cli) -> None:
    big = cli.documents(vm("big", "T4-16Q"), name="big.yaml")
    cli.fails(5, "apply", "-f", big)
    shown = cli.fails(10, "defrag", "plan", *BIG, "--detailed-exitcode", "-o", "json").json
    [move] = shown["moves"]
    assert (move["from"], move["to"], move["how"]) == ("h1", "h2", "live")
    assert move["parts"][0]["profile"] == "T4-4Q"
    assert shown["possible"]
    before = where(cli)
    assert before[move["name"]] == "h1", "a plan moves nothing"
    done = cli.ok("defrag", "apply", *BIG)
    assert "1 of 1 move done" in done.out
    assert where(cli) == {**before, move["name"]: "h2"}
    cli.ok("apply", "-f", big)
    assert where(cli)["big"] == "h1"
    assert cli.ok("drift").code == 0


def test_the_same_command_again_has_nothing_to_move(cli: Cli) -> None:
    cli.ok("defrag", "apply", "--free", "2")
    again = cli.ok("defrag", "apply", "--free", "2")
    assert "nothing to move, the goal is already met" in again.out
    assert "--count needs --for" in cli.fails(2, "defrag", "plan", "--count", "3").err
    assert cli.ok("defrag", "plan", "--free", "1", "--detailed-exitcode").code == 0


def test_without_a_goal_it_is_what_is_expected_that_counts(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of each GPU is taken: nothing of it is of use to who wants a whole one."""
    assert "nothing to move" in cli.ok("defrag", "plan").out
    monkeypatch.setenv("VGPUMGR_MIX", "[{gpus: [{profile: T4-16Q}]}]")
    assert "vgpumgr defrag plan" in cli.ok("capacity").err
    shown = cli.ok("defrag", "plan", "-o", "json").json
    assert shown["fragmentation"]["before"] == 1.0
    # The third GPU could only be emptied onto h1, which accepts no live migrations.
    assert shown["fragmentation"]["after"] == pytest.approx(1 / 3, abs=0.01)
    assert [move["to"] for move in shown["moves"]] == ["h2", "h2"]
    monkeypatch.setenv("VGPUMGR_DEFRAG_THRESHOLD", "100%")
    assert "nothing to move" in cli.ok("defrag", "plan").out
    assert "vgpumgr defrag plan" not in cli.ok("capacity").err


def test_a_running_vm_is_stopped_only_where_that_is_allowed(cli: Cli) -> None:
    """No host takes running ones any more."""
    cli.ok("host", "migration", "h2", "--off")
    refused = cli.fails(5, "defrag", "plan", "--free", "2")
    assert "has no migration address" in refused.err
    assert "--allow-cold: 2 moves" in refused.err
    before = where(cli)
    asked = cli.fails(2, "defrag", "apply", "--free", "2", "--allow-cold")
    assert "stop 2 VMs" in asked.err
    assert where(cli) == before
    cli.ok("defrag", "apply", "--free", "2", "--allow-cold", "-y")
    assert where(cli) != before
    cli.ok("host", "migration", "h2", "--address", "h2")


def test_a_move_that_fails_ends_it_and_the_same_command_goes_on(cli: Cli) -> None:
    before = where(cli)
    cli.ok("sim", "inject", "h2", "refuse", "mdev_create", "EIO", "1")
    failed = cli.fails(7, "defrag", "apply", "--free", "2")
    assert "0 of 2 moves done" in failed.err
    assert where(cli) == before
    assert "2 moves" in cli.ok("defrag", "plan", "--free", "2").out
    assert "2 of 2 moves done" in cli.ok("defrag", "apply", "--free", "2").out
    assert set(where(cli).values()) == {"h2"}
    for gpu in cli.items("gpu", "list"):
        cli("heal", "--lift", gpu["name"], "-y")  # only one of them is in back-off


def test_what_is_in_the_way_is_said(cli: Cli) -> None:
    refused = cli.fails(5, "defrag", "plan", "--free", "4", "-o", "json")
    assert "2 can be reached" in refused.error["why"]
    assert "b stays: it cannot move running: h1 has no migration address" in refused.error["why"]
    cli.ok("sim", "inject", "h1", "unreachable")
    assert "1 host were left out" in cli.fails(7, "defrag", "plan").err
    cli.ok("sim", "inject", "h1", "clear")
    few = cli.fails(5, "defrag", "plan", "--free", "2", "--max-moves", "1")
    assert "it takes 2 moves" in few.err
    unknown = cli.fails(2, "defrag", "plan", "--for", "A40-8Q")
    assert "no GPU of the fleet can provide A40-8Q" in unknown.err
    assert "different goals" in cli.fails(2, "defrag", "plan", "--free", "1", *BIG).err
