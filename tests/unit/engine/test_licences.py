"""Licence seats as capacity: VMs, waiting VMs and desktops without one do not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.poolsim import PoolSim, spec
from tests.simworld import SimWorld, host
from tests.simworld import vm as sim_vm
from tests.world import World, vm
from vgpumgr.engine.capacity.profile_capacity import ProfileRoom, SeatsLeft
from vgpumgr.engine.desktops.desktop_state import FreeCapacity
from vgpumgr.engine.inventory.ledger_view import read_view
from vgpumgr.model.errors import NoSeatLeft
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.model.vm import Terms
from vgpumgr.model.vm_devices import DiskSpec


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


def test_a_desktop_is_recreated_for_the_next_user_with_the_seat_that_it_had(tmp_path: Path) -> None:
    """Seats for exactly the desktops that there are; the pool would have more, and says why not."""
    sim = PoolSim(tmp_path, spec(least=2, spare=2, most=4), "h1")
    sim.ledger.set_licence(Licence(edition=Edition.VWS, seats=2))
    for _ in range(3):
        warned = sim.turn(30).warnings
    assert sim.states() == {"cad-01": "ready", "cad-02": "ready"}
    given = sim.assign("ada").desktop
    warned = sim.turn(30).warnings
    assert [each.code for each in warned["cad"]] == ["no-room"]
    assert "licence seats" in warned["cad"][0].text
    sim.engine.release_desktop("cad", "ada")
    for _ in range(4):
        sim.turn(30)
    assert sim.states() == {"cad-01": "ready", "cad-02": "ready"}
    assert not sim.rows()[given].desktop.stained
    sim.world.close()


def test_a_vm_that_is_moved_takes_one_seat(tmp_path: Path) -> None:
    world = SimWorld(tmp_path, host("T4", name="h1"), host("T4", name="h2"))
    world.engine.refresh()
    world.ledger.set_licence(Licence(edition=Edition.VWS, seats=1))
    world.apply(sim_vm("a", "T4-4Q", disks=(DiskSpec(size_bytes=1 << 20),)))
    [before] = world.ledger.vms()
    target = "h2" if before.host == "h1" else "h1"
    world.engine.stop_vms(["a"], force=True, timeout_s=1.0)
    world.engine.migrate("a", target, cold=True)
    assert world.ledger.vm("a").host == target
    world.close()
