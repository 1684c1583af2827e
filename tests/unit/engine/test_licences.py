"""Licence seats as capacity: VMs, waiting VMs and desktops without one do not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world import World, vm
from vgpumgr.engine.capacity.profile_capacity import ProfileRoom, SeatsLeft
from vgpumgr.engine.desktops.desktop_state import FreeCapacity
from vgpumgr.engine.inventory.ledger_view import read_view
from vgpumgr.model.errors import NoSeatLeft
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.model.vm import Terms


def seats(world: World, count: int, edition: Edition = Edition.VWS) -> None:
    world.ledger.set_licence(Licence(edition=edition, seats=count))


def test_a_vm_without_a_seat_is_refused_with_the_edition_and_the_numbers(tmp_path: Path) -> None:
    world = World(tmp_path)
    seats(world, 1)
    with pytest.raises(NoSeatLeft) as caught:
        world.engine.apply([vm("a", "T4-4Q"), vm("b", "T4-4Q")])
    assert caught.value.why == "licence vws: 1 of 1 seats used, 1 asked"
    assert world.names() == []
    world.engine.apply([vm("a", "T4-4Q")])
    assert world.names() == ["a"]
    world.close()


def test_a_vm_that_may_wait_waits_for_a_seat(tmp_path: Path) -> None:
    world = World(tmp_path)
    seats(world, 1)
    world.engine.apply([vm("a", "T4-4Q", queue=Terms()), vm("b", "T4-4Q", queue=Terms())])
    assert world.names() == ["a"]
    [waiting] = [each for each in world.ledger.queue() if each.name == "b"]
    assert waiting.name == "b"
    world.close()


def test_a_desktop_is_startable_while_a_seat_is_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.engine.refresh()
    one = vm("desk", "T4-4Q")
    free = FreeCapacity(read_view(world.ledger))
    assert free.startable(one, 10) > 2
    seats(world, 2)
    free = FreeCapacity(read_view(world.ledger))
    assert free.startable(one, 10) == 2
    free.promise([one])
    assert free.startable(one, 10) == 1
    assert free.startable(vm("c"), 10) > 1  # it needs none
    world.close()


def test_capacity_is_bounded_by_the_seats_and_says_what_is_not_declared(tmp_path: Path) -> None:
    world = World(tmp_path)
    seats(world, 3)
    world.engine.apply([vm("a", "T4-4Q")])
    left = SeatsLeft(read_view(world.ledger))

    def room(profile: str) -> ProfileRoom:
        return ProfileRoom(
            profile=profile, frameworks=(), memory_mib=1, fits=9, in_use=0, verified=True
        )

    assert left.of(room("T4-4Q")) == {
        **{"fits": 2, "fits_after": 0},
        **{"edition": "vws", "seats_left": 2},
    }
    assert left.of(room("T4-4C")) == {"edition": "nvaie", "seats_left": None}
    assert left.of(room("passthrough")) == {"edition": "", "seats_left": None}
    assert list(left.notes()) == ["licence seats are not declared, and so not limited, of: nvaie"]
    world.close()
