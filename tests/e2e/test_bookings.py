"""`vgpumgr booking`: desktops kept for a group, and what others meet meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.support import Cli, host, new_cli, pool, vm

POOL = pool(entitlement={"groups": ["class"]}, spare=0, max=4, time_zone="Europe/Berlin")


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1), images=["cad@1.qcow2"]))
        made.ok("apply", "-f", made.documents(POOL))
        yield made


def window(begins: timedelta, lasts: timedelta) -> list[str]:
    start = datetime.now(UTC) + begins
    return ["--from", start.isoformat(), "--to", (start + lasts).isoformat()]


def words(count: int, times: list[str], **other: str) -> list[str]:
    asked = {"group": "class", "profile": "T4-4Q", **other}
    options = [word for name, value in asked.items() for word in (f"--{name}", value)]
    return ["booking", "create", *options, "--count", str(count), *times]


def test_what_is_booked_is_kept_listed_and_let_go(cli: Cli) -> None:
    now = window(timedelta(minutes=-1), timedelta(hours=1))
    assert "3 desktops of pool cad for class" in cli.ok(*words(3, now)).err
    [booked] = cli.items("booking", "list")
    assert (booked["state"], booked["pool"], booked["in_use"]) == ("holds", "cad", 0)
    why = "capacity for 3 × T4-4Q is reserved for bookings of pool cad"
    cli.ok("apply", "-f", cli.documents(vm("one", "T4-4Q"), name="one.yaml"))
    two = cli.documents(vm("two", "T4-4Q"), name="two.yaml")
    assert why in cli.fails(5, "apply", "-f", two).err
    assert why in cli.fails(5, "explain", "-f", two).out
    assert f"{booked['name']} has 3" in cli.fails(4, *words(1, now)).err
    cli.ok("booking", "delete", booked["name"])
    cli.ok("apply", "-f", two)
    assert cli.items("booking", "list") == []
    assert "vgpumgr booking list" in cli.fails(3, "booking", "delete", booked["name"]).err


@pytest.mark.parametrize(
    ("times", "other", "code", "why"),
    [
        (["--from", "noon", "--to", "2099-01-01"], {}, 2, "is not a time"),
        (["--from", "2099-01-01 09:00", "--to", "2099-01-01 09:00"], {}, 2, "ends after it began"),
        (["--from", "2001-01-01", "--to", "2001-01-02"], {}, 2, "after now"),
        (["--from", "2099-01-01", "--to", "2099-01-02"], {"profile": "T4-4X"}, 2, "T4-4Q"),
        (["--from", "2099-01-01", "--to", "2099-01-02"], {"group": "nobody"}, 3, "not for nobody"),
    ],
)
def test_what_is_no_booking_is_refused(
    cli: Cli, times: list[str], other: dict[str, str], code: int, why: str
) -> None:
    assert why in cli.fails(code, *words(1, times, **other)).err
    assert cli.items("booking", "list", "--all") == []


def test_times_are_by_the_clock_of_the_pool(cli: Cli) -> None:
    said = cli.ok(*words(1, ["--from", "2099-07-01 09:00", "--to", "2099-07-01 17:30"])).err
    assert "2099-07-01 09:00 to 2099-07-01 17:30 (Europe/Berlin)" in said
    [booked] = cli.items("booking", "list")
    assert datetime.fromisoformat(booked["starts_at"]).hour == 7


@pytest.mark.parametrize("moment", ["0001-01-01T00:00+23:00", "9999-12-31T23:00-23:00", "soon"])
def test_a_time_that_no_zone_can_show_is_refused(cli: Cli, moment: str) -> None:
    asked = words(1, ["--from", moment, "--to", moment])
    assert "is not a time" in cli.fails(2, *asked).err
    assert cli.items("booking", "list") == []


def test_a_booking_for_nobody_or_of_no_length_says_what_to_write(cli: Cli) -> None:
    now = window(timedelta(0), timedelta(0))
    assert "write a later --to" in cli.fails(2, *words(1, now)).err
    assert "is not a name" in cli.fails(2, *words(1, now, group="")).err


def test_a_booking_that_can_no_longer_be_kept_is_named(cli: Cli) -> None:
    """A VM that nobody knows the end of takes the only GPU before a booking begins."""
    cli.ok(*words(4, window(timedelta(days=1), timedelta(hours=1))))
    [booked] = cli.items("booking", "list")
    assert booked["state"] == "to come"
    file = cli.documents(vm("whole", "T4-16Q"), name="whole.yaml")
    name = booked["name"]
    said = f"booking {name} (4 × T4-4Q for class, pool cad) cannot be honoured: 4 are missing"
    assert said in cli.ok("plan", "-f", file).out
    assert cli.ok("plan", "-f", file, "-o", "json").json["notes"] == [said]
    assert said in cli.ok("apply", "-f", file).out
    [booked] = cli.items("booking", "list")
    assert booked["missing"] == 4
    assert "cannot be honoured: 4 of 4 are missing" in cli.ok("booking", "list").out
    cli.ok("vm", "delete", "whole", "--force", "-y")
    [booked] = cli.items("booking", "list")
    assert (booked["state"], booked["missing"]) == ("to come", 0)


def test_who_ends_in_time_takes_nothing_of_a_booking(cli: Cli) -> None:
    cli.ok(*words(4, window(timedelta(days=1), timedelta(hours=1))))
    short = vm("short", "T4-16Q", queue={"runtime": "2h"})
    planned = cli.ok("plan", "-f", cli.documents(short, name="short.yaml"))
    assert "cannot be honoured" not in planned.out
    cli.ok("apply", "-f", cli.documents(short, name="short.yaml"))
    assert cli.items("booking", "list")[0]["missing"] == 0


def test_the_queue_keeps_the_room_of_a_booking(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("now", "T4-16Q"), name="now.yaml"))
    waits = vm("open", "T4-16Q", queue={}), vm("short", "T4-16Q", queue={"runtime": "2h"})
    cli.ok("apply", "-f", cli.documents(*waits, name="waits.yaml"))
    cli.ok("vm", "delete", "now", "--force", "-y")
    cli.ok(*words(4, window(timedelta(days=1), timedelta(hours=1))))
    cli.ok("serve", "--once")
    there = {each["name"] for each in cli.items("vm", "list")}
    assert "open" not in there, "it may run for ever"
    assert "short" in there, "it has ended by then"
