"""The queue's pure parts: who waits, who has ended, and the supply without who may be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scenarios.ways import WAYS
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.inventory.fleet_without import fleet_without
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.vm_admission import admit, require_known, with_waiting
from vgpumgr.engine.queue.queue_decision import ended, placed_as
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, NotFound, UsageError
from vgpumgr.model.host import HostFacts, UnknownPart
from vgpumgr.model.placement import Decision, NotPlaced, Placed, Reason
from vgpumgr.model.queue import QueueEntry, QueueState
from vgpumgr.model.vm import Terms, VmSpec, VmState
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.placement.placer import Placer

ON = Terms()


def waits(spec: VmSpec, since: float = 1.0) -> QueueEntry:
    return QueueEntry(id=f"q-{spec.name}", vm=spec, state=QueueState.WAITING, since=since)


def no(spec: VmSpec) -> NotPlaced:
    return NotPlaced(request=spec, reasons=(Reason(code="memory", host="h1", text="it is full"),))


def yes(spec: VmSpec) -> Placed:
    return Placed(request=spec, host="h1", assignments=())


# -- who waits ---------------------------------------------------------------------------------


def test_who_does_not_fit_waits_and_who_may_not_wait_is_refused() -> None:
    a, b, c = vm("a", queue=ON), vm("b"), vm("c", queue=ON)
    asked = admit([a, b, c], ())
    kept, waiting = with_waiting(asked, [no(a), no(b), yes(c)], ())
    assert list(kept) == ["b", "c"]
    assert [(each.vm.name, each.position, each.why) for each in waiting] == [("a", 1, "it is full")]


def test_nobody_passes_those_that_wait_and_each_has_its_place_in_the_line() -> None:
    before = [waits(vm("old", queue=ON), 1.0), waits(vm("low", queue=Terms(priority=-100)), 0.0)]
    new = [vm("high", queue=Terms(priority=100)), vm("old", queue=ON), vm("plain")]
    asked = admit(new, before)
    assert [spec.name for spec in asked.tried] == ["plain"]
    _, waiting = with_waiting(asked, [yes(new[2])], before)
    found = [(each.vm.name, each.position, each.new) for each in waiting]
    assert found == [("high", 1, True), ("old", 2, False)]


def test_those_that_start_together_wait_together() -> None:
    a, b = (vm(name, queue=Terms(together="g")) for name in "ab")
    other = vm("c", queue=ON)
    kept, waiting = with_waiting(admit([a, b, other], ()), [yes(a), no(b), yes(other)], ())
    assert list(kept) == ["c"]
    assert [each.why for each in waiting] == ["not enough capacity yet for all of g", "it is full"]


def test_room_that_one_held_back_would_have_is_anothers() -> None:
    a, b = (vm(name, queue=Terms(together="g")) for name in "ab")
    plain = vm("plain")
    asked = admit([a, b, plain], ())
    decisions: list[Decision] = [yes(a), no(b), no(plain)]
    _, waiting = with_waiting(asked, decisions, ())
    again = asked.without(waiting, decisions)
    assert again is not None
    assert [spec.name for spec in again.tried] == ["plain"]
    kept, waiting = with_waiting(again, [yes(plain)], ())
    assert (list(kept), [each.vm.name for each in waiting]) == (["plain"], ["a", "b"])
    assert asked.without((), [yes(a)]) is None


def test_what_can_never_start_is_refused() -> None:
    a, b = vm("a", queue=Terms(after=("b",))), vm("b", queue=Terms(after=("a",)))
    with pytest.raises(NotFound, match="a depends on b"):
        require_known([a, vm("b")], ())
    with pytest.raises(UsageError) as caught:
        require_known([a], [waits(b)])
    assert caught.value.why in {"a → b → a", "b → a → b"}
    require_known([a], [replace(waits(vm("b", queue=ON)), state=QueueState.ENDED)])
    with pytest.raises(Conflict, match="a waits in the queue with another definition"):
        require_known([vm("a", queue=ON, vcpus=4)], [waits(vm("a", queue=ON))])


# -- who has ended -----------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    made.apply(vm("a", "T4-4Q", queue=ON))
    yield made
    made.close()


def off(world: SimWorld) -> LedgerView:
    """Its guest has powered off, on a host that was seen whole."""
    world.sim.hosts["h1"].domains.shutdown("a")
    world.engine.refresh()
    view = world.engine.view()
    return replace(view, hosts=(replace(view.hosts[0], settled_boot=_facts(view).boot_id),))


def _facts(view: LedgerView) -> HostFacts:
    assert view.hosts[0].facts is not None
    return view.hosts[0].facts


def seen(view: LedgerView, **facts: object) -> LedgerView:
    changed = replace(_facts(view), **facts)  # type: ignore[arg-type]
    return replace(view, hosts=(replace(view.hosts[0], facts=changed),))


def test_one_that_is_seen_to_be_off_has_ended(world: SimWorld) -> None:
    assert ended(world.engine.view()) == ()
    view = off(world)
    assert [entry.name for entry, _ in ended(view)] == ["a"]
    assert ended(view, busy={view.vms[0].id}) == ()


def test_nothing_that_is_not_seen_is_an_end(world: SimWorld) -> None:
    view = off(world)
    [domain] = _facts(view).domains
    silent = replace(view.hosts[0], last_error="timed out")
    for other in (
        replace(view, hosts=(silent,)),
        replace(view, hosts=(replace(view.hosts[0], settled_boot=""),)),
        replace(view, hosts=(replace(view.hosts[0], maintenance=True),)),
        seen(view, boot_id="another"),
        seen(view, stopping=True),
        seen(view, domains=()),
        seen(view, domains=(replace(domain, ownership=None),)),
        seen(view, domains=(replace(domain, state=DomainState.CRASHED),)),
        seen(view, domains=(replace(domain, state=DomainState.PAUSED),)),
        seen(view, unknown=(UnknownPart(part="domains", why="cut"),)),
        replace(view, vms=(replace(view.vms[0], running=False),)),
        replace(view, vms=(replace(view.vms[0], state=VmState.MIGRATING),)),
        replace(view, queue=()),
    ):
        assert ended(other) == ()


# -- the supply without who may be stopped -----------------------------------------------------

# A GPU on vfio-pci does not say what else it could make.
BOUND: dict[str, Any] = {"offers": (), "same_size": False, "could": {}}


@pytest.mark.parametrize("part", WAYS)
def test_a_vm_that_is_lifted_leaves_the_supply_as_it_was_and_can_be_put_back(
    tmp_path: Path, part: str
) -> None:
    """The same room as before it was made, to the slot; and taken again, what is left now."""
    way = WAYS[part]
    world = SimWorld(tmp_path, *way.hosts("h1"))
    try:
        world.engine.refresh()
        if way.layout:
            world.cut(way.layout)
        world.apply(vm("keeper", *([way.kept] if way.kept else [])))
        world.engine.refresh()
        before = build_fleet(world.engine.view())
        desk = way.desk(queue=ON, disks=(DiskSpec(size_bytes=1 << 20),))
        world.apply(desk)
        world.engine.refresh()
        view = world.engine.view()
        record = world.ledger.vm("desk")
        lifted = fleet_without(view, {record.id})
        for was, now in zip(before.hosts[0].gpus, lifted.hosts[0].gpus, strict=True):
            whole = {} if way.profiles and "passthrough" not in way.profiles else BOUND
            assert replace(now, available={}, **whole) == replace(was, available={}, **whole)
        held = [each for each in view.allocations if each.vm_id == record.id]
        placed = placed_as(record, held, lifted.hosts[0])
        assert placed is not None
        placer = Placer(lifted, world.engine.policy)
        placer.commit(placed)
        placer.release(placed)
        again = placer.decide(desk)
        assert isinstance(again, Placed)
    finally:
        world.close()
