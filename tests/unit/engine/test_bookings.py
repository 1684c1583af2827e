"""Desktops kept for a group: by its pool, and by whoever places others meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import DESKTOP, OLD, STAFF, PoolSim, spec
from vgpumgr.engine.pools import desktop_action_run
from vgpumgr.engine.pools.bookings import BookingRequest
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.model.desktop import Booking, Desktop, DesktopRecord, DesktopState, DesktopVerb
from vgpumgr.model.errors import Conflict, NoPlacement, NotFound, UsageError
from vgpumgr.model.pool import Entitlement, Naming, Size
from vgpumgr.model.vm import GpuRequest, Terms, VmSpec

HOUR = 3600.0
GROUPS = Entitlement(groups=STAFF | {"class"})


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[PoolSim]:
    """A pool on one T4 that has room for four desktops; none is wanted yet."""
    made = PoolSim(tmp_path, spec(spare=0, entitlement=GROUPS), "h1")
    yield made
    made.world.close()


def book(sim: PoolSim, count: int, *, hours: tuple[float, float] = (1, 3)) -> Booking:
    start, end = (sim.clock.now() + HOUR * each for each in hours)
    request = BookingRequest(group="class", profile="T4-4Q", count=count, start=start, end=end)
    return sim.engine.book(request)


def alone(name: str) -> VmSpec:
    return VmSpec(name=name, vcpus=1, memory_mib=512, gpus=(GpuRequest(profile="T4-4Q"),))


def test_its_desktops_are_there_when_it_begins_and_are_its_groups(sim: PoolSim) -> None:
    booking = book(sim, 2)
    sim.turn()
    assert sim.vms() == []
    sim.turn(after_s=0.8 * HOUR)
    assert sim.states() == {"cad-01": "ready", "cad-02": "ready"}
    sim.turn(after_s=0.3 * HOUR)
    assert not sim.assign("ada").desktop, "what is kept for the class is nobody else's"
    given = sim.engine.assign_desktop("cad", "pip", {"class"})
    assert given.desktop, "ada waits, but not for that one"
    sim.turn()
    sessions = filter(None, (row.desktop.session for row in sim.rows().values()))
    assert {each.user: each.booking for each in sessions} == {"ada": "", "pip": booking.id}


def test_others_are_placed_beside_what_it_needs(sim: PoolSim) -> None:
    book(sim, 2)
    sim.engine.apply([alone("early")])
    sim.clock.wait(0.9 * HOUR)
    sim.engine.apply([alone("beside")])
    with pytest.raises(NoPlacement) as refused:
        sim.engine.apply([alone("late")])
    reserved = "capacity for 2 × T4-4Q is reserved for bookings of pool cad"
    assert refused.value.why == f"{reserved}; it fits without that booking"
    sim.turn()
    assert sim.states() == {"cad-01": "ready", "cad-02": "ready"}
    sim.clock.wait(3 * HOUR)
    sim.turn()
    sim.engine.apply([alone("late")])


def test_a_pool_of_another_profile_leaves_its_room(sim: PoolSim) -> None:
    """A T4 that is cut into 8Q has no 4Q: the more important pool would take it whole."""
    large = replace(DESKTOP, name="large", gpus=(GpuRequest(profile="T4-8Q"),))
    sim.engine.put_pool(
        spec(
            name="large",
            priority=9,
            desktop=large,
            naming=Naming("large-", 2),
            size=Size(min=0, spare=0, max=2),
        )
    )
    book(sim, 2)
    sim.clock.wait(0.9 * HOUR)
    sim.engine.assign_desktop("large", "ada", STAFF)
    sim.turn()
    assert sim.states() == {"cad-01": "ready", "cad-02": "ready"}


def test_desktops_of_others_are_placed_beside_what_it_needs(sim: PoolSim) -> None:
    """What was taken to be made before the booking came finds the room it has left."""
    sim.engine.put_pool(
        spec(name="other", naming=Naming("other-", 2), size=Size(min=0, spare=0, max=4))
    )
    sim.engine.assign_desktop("other", "ada", STAFF)
    book(sim, 4, hours=(0, 1))
    taken = DesktopRecord(
        id="d1",
        pool=sim.ledger.pool("other").id,
        desktop=Desktop(
            name="other-01", state=DesktopState.CREATING, image=OLD, since=sim.clock.now()
        ),
        doing=DesktopVerb.CREATE,
    )
    rows, refused = desktop_action_run.fit(sim.engine, [taken])
    assert rows == [] and [row.name for row, _ in refused] == ["other-01"]
    assert "4 × T4-4Q is reserved for bookings of pool cad" in str(refused[0][1].why)


def test_what_does_not_fit_is_refused_with_who_is_in_the_way(sim: PoolSim) -> None:
    first = book(sim, 3)
    with pytest.raises(Conflict) as refused:
        book(sim, 2, hours=(2, 5))
    assert refused.value.why == (f"2 × T4-4Q do not fit: 4 can run at a time, {first.id} has 3")
    book(sim, 2, hours=(3, 5))
    sim.ledger.cancel_booking(first.id)
    book(sim, 2, hours=(1, 3))
    sim.engine.apply([alone("other")])
    with pytest.raises(Conflict, match="pool cad"):
        book(sim, 4, hours=(8, 9))


def test_one_that_nobody_could_serve_is_refused(sim: PoolSim) -> None:
    with pytest.raises(UsageError):
        book(sim, 1, hours=(2, 2))
    with pytest.raises(UsageError):
        book(sim, 1, hours=(-3, -2))
    now = sim.clock.now()
    for group, profile, why in (
        ("nobody", "T4-4Q", "cad: of that profile, but not for nobody"),
        ("class", "T4-8Q", "no pool has desktops with T4-8Q"),
    ):
        request = BookingRequest(group=group, profile=profile, count=1, start=now, end=now + HOUR)
        with pytest.raises(NotFound) as refused:
            sim.engine.book(request)
        assert refused.value.why == why
    assert sim.ledger.bookings() == ()


def test_what_waits_in_the_queue_leaves_its_room(sim: PoolSim) -> None:
    book(sim, 3)
    sim.clock.wait(0.9 * HOUR)
    waiting = [replace(alone(name), queue=Terms()) for name in ("one", "two")]
    sim.engine.apply(waiting)
    queue_cycle.step(sim.engine)
    assert sim.vms() == ["one"]
    sim.clock.wait(3 * HOUR)
    queue_cycle.step(sim.engine)
    assert sim.vms() == ["one", "two"]
