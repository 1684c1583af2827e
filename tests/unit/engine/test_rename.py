"""A VM gets another name, and keeps all that is its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.errors import Conflict, NotFound, StillRunning, UsageError
from vgpumgr.model.operation import Transition
from vgpumgr.model.vm import Terms, VmRecord, VmState
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.store.sql_ledger import SqlLedger

DISKS = (DiskSpec(size_bytes=1 << 20),)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    made.apply(vm("a", "T4-8Q", disks=DISKS, tpm=True))
    yield made
    made.close()


def stop(world: SimWorld, name: str = "a") -> None:
    world.engine.stop_vms([name], force=True, timeout_s=5.0).raise_for_failure()


def rename(world: SimWorld, name: str, new_name: str) -> None:
    world.engine.rename(name, new_name).raise_for_failure()


def there(world: SimWorld, name: str) -> VmRecord:
    return world.ledger.vm(name)


def test_all_that_it_had_is_its_own_under_the_new_name(world: SimWorld) -> None:
    stop(world)
    before = there(world, "a")
    domains = world.hosts.open(world.ledger.host("h1")).domains
    old = domains.look("a")
    rename(world, "a", "b")
    after, now = there(world, "b"), domains.look("b")
    with pytest.raises(NotFound):
        there(world, "a")
    assert domains.look("a") is None
    assert old is not None and now is not None and now.uuid == old.uuid
    assert (after.id, after.volumes, after.state) == (before.id, before.volumes, VmState.ACTIVE)
    assert after.spec == replace(before.spec, name="b") and after.moving_to is None
    assert [each.vm for each in world.ledger.allocations()] == ["b"]
    world.engine.start(["b"]).raise_for_failure()
    assert survey(world.engine).drifts == ()
    told = next(each for each in world.ledger.audit(event="vm.renamed"))
    assert (told.vm, told.detail) == ("b", "was a") and told.operation
    world.engine.delete(["b"], keep_disks=False, force=True).raise_for_failure()
    storage = world.hosts.open(world.ledger.host("h1")).storage
    assert storage.look(*before.volumes[0]) is None


def test_a_vm_that_runs_is_stopped_for_it_where_that_is_allowed(world: SimWorld) -> None:
    with pytest.raises(StillRunning) as refused:
        rename(world, "a", "b")
    assert refused.value.next.endswith("vgpumgr vm rename a b --restart")
    world.engine.rename("a", "b", stop=StopManner()).raise_for_failure()
    look = world.hosts.open(world.ledger.host("h1")).domains.look("b")
    assert look is not None and look.state == "running"


def test_its_snapshots_go_with_it(world: SimWorld) -> None:
    world.apply(vm("c", "", disks=DISKS))
    stop(world, "c")
    world.engine.take_snapshot("c", "s1").raise_for_failure()
    rename(world, "c", "d")
    world.engine.revert("d", "s1").raise_for_failure()
    world.engine.delete_snapshot("d", "s1").raise_for_failure()
    assert survey(world.engine).drifts == ()


def test_a_name_that_is_taken_or_none_is_refused(world: SimWorld) -> None:
    stop(world)
    world.apply(vm("b", ""))
    for name in ("b", "a"):
        with pytest.raises(Conflict):
            rename(world, "a", name)
    with pytest.raises(UsageError):
        rename(world, "a", "No Name")
    world.engine.shelve(["a"], StopManner(force=True)).raise_for_failure()
    with pytest.raises(Conflict, match="shelved"):
        rename(world, "a", "c")


def test_a_vm_that_others_wait_for_keeps_its_name(world: SimWorld) -> None:
    stop(world)
    waiting = vm("w", "", queue=Terms(after=("a",)))
    world.apply(vm("a2", "", queue=Terms()))
    stop(world, "a2")
    world.apply(replace(waiting, queue=Terms(after=("a2",))))
    with pytest.raises(Conflict, match="cannot be renamed now"):
        rename(world, "a2", "b")


class Cut(Exception):
    """The process dies."""


def test_both_names_are_held_until_it_is_finished(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop(world)

    def dies(self: SqlLedger, *transitions: Transition) -> None:
        raise Cut

    monkeypatch.setattr(SqlLedger, "record", dies)
    with pytest.raises(Cut):
        rename(world, "a", "b")
    monkeypatch.undo()
    world.restart()
    with pytest.raises(Conflict, match="VM b exists already"):
        world.apply(vm("b", ""))
    with pytest.raises(Conflict):
        world.engine.start(["a"])
    rename(world, "a", "b")
    assert there(world, "b").state is VmState.ACTIVE
    assert survey(world.engine).drifts == ()
