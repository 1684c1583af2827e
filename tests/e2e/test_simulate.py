"""A fleet that is otherwise: what is said of it, and that nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, Ran, host, new_cli, vm

pytestmark = pytest.mark.mainline


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """Two hosts with a T4 each; half of one is taken."""
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)))
        found.ok("apply", "-f", found.documents(vm("desk", "T4-8Q", affinity={"hosts": ["one"]})))
        found.ok("apply", "-f", found.documents(vm("free", "T4-8Q", policy="breadth-first")))
        yield found


def hosts(ran: Ran) -> list[str | None]:
    return [each["host"] for each in ran.json["vms"]]


def test_what_is_asked_for_finds_as_many_places_as_capacity_says(cli: Cli) -> None:
    (room,) = cli.items("capacity", "T4-8Q", "--vcpus", "1", "--memory", "1GiB")
    before = cli.items("allocation", "list")
    asked = ("simulate", "--add", "T4-8Q=9", "--vcpus", "1", "--memory", "1GiB")
    found = cli.fails(5, *asked, "-o", "json")
    assert sum(each is not None for each in hosts(found)) == room["fits"] == 2
    assert found.json["homeless"] == 7
    text = cli.fails(5, *asked).out
    assert "no place for T4-8Q #3 and 6 more" in text
    assert text.endswith("2 VMs would be placed, 7 would not\n")
    more = hosts(cli.fails(5, *asked, "--add-host", "two×2", "-o", "json"))
    assert sum(each is not None for each in more) == 2 + 4
    assert {"two-new-1", "two-new-2"} <= {str(each) for each in more}
    assert cli.items("allocation", "list") == before


def test_vms_of_a_host_that_fails_go_elsewhere_or_lose_their_place(cli: Cli) -> None:
    ran = cli.fails(5, "simulate", "--fail", "one", "-o", "json")
    assert {each["vm"]: (each["was_on"], each["host"]) for each in ran.json["vms"]} == {
        "desk": ("one", None)  # it wants to be there and nowhere else
    }
    ran = cli.ok("simulate", "--fail", "two", "-o", "json")
    assert {each["vm"]: (each["was_on"], each["host"]) for each in ran.json["vms"]} == {
        "free": ("two", "one")
    }
    cli.fails(10, "simulate", "--fail", "two", "--detailed-exitcode")
    cli.fails(3, "simulate", "--fail", "three")


def test_what_is_removed_makes_room_as_its_deletion_does(cli: Cli) -> None:
    whole = cli.documents(vm("whole", "T4-16Q"))
    cli.fails(5, "simulate", "-f", whole)
    assert hosts(cli.ok("simulate", "-f", whole, "--remove-vm", "free", "-o", "json")) == ["two"]


@pytest.mark.thorough
def test_a_new_host_is_partitioned_as_serves_what_is_asked_for(cli: Cli) -> None:
    ran = cli.fails(5, "simulate", "--add-host", "A40x1", "--add", "A40-8Q=7", "-o", "json")
    assert hosts(ran) == ["new-1"] * 6 + [None]
    assert ran.json["added"] == [{"host": "new-1", "layout": "with a layout: vfs: max"}]
    fleet = {"kind": "Fleet", "name": "dream", "hosts": [host("big", ("A100-PCIE-80GB", 1))]}
    file = cli.documents(fleet, name="dream.yaml")
    ran = cli.ok("simulate", "--add-host", file, "--add", "1g.10gb=7", "-o", "json")
    assert hosts(ran) == ["big"] * 7
    assert "mig: true" in ran.json["added"][0]["layout"]
    ran = cli.ok("simulate", "--add-host", "mi300x", "--add", "MI300X-1of8=8", "-o", "json")
    assert hosts(ran) == ["new-1"] * 8


def test_nonsense_is_refused_with_the_way_out(cli: Cli) -> None:
    cli.fails(2, "simulate")
    assert "no board, and no file" in cli.fails(2, "simulate", "--add-host", "nothing").err
    assert "write PROFILE=N" in cli.fails(2, "simulate", "--add", "T4-8Q=0").err
    cli.fails(3, "simulate", "--remove-vm", "nobody")


def test_a_missing_copy_of_an_image_is_no_lack_of_room(cli: Cli) -> None:
    image = cli.folder / "cad.img"
    image.write_bytes(bytes(1 << 20))
    cli.ok("image", "import", str(image), "--name", "cad", "--format", "raw", "--host", "one")
    desk = vm("far", "T4-8Q", disks=[{"mode": "overlay", "image": "cad@1"}])
    file = cli.documents({**desk, "affinity": {"hosts": ["two"]}})
    assert hosts(cli.ok("simulate", "-f", file, "--remove-vm", "free", "-o", "json")) == ["two"]


def test_the_same_host_added_twice_is_two_hosts(cli: Cli) -> None:
    twice = ("--add-host", "two", "--add-host", "two", "--add-host", "T4", "--add-host", "T4")
    ran = cli.ok("simulate", *twice, "--add", "T4-16Q=4", "-o", "json")
    added = [each["host"] for each in ran.json["added"]]
    assert added == ["two-new-1", "two-new-2", "new-1", "new-2"]
    assert sorted(map(str, hosts(ran))) == sorted(added)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--add", "two=2"), ("two is a host", "simulate --add-host two×2")),
        (("--add", "T4-8K=2"), ("unknown profile T4-8K", "did you mean")),
        (("--add-host", "twoo"), ("--add-host twoo", "did you mean two?")),
    ],
)
def test_what_is_no_profile_and_no_host_is_told_with_what_was_meant(
    cli: Cli, wrong: tuple[str, ...], said: tuple[str, ...]
) -> None:
    ran = cli.fails(2, "simulate", *wrong)
    assert all(each in ran.err for each in said), ran.err
