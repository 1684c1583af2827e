"""Disks of VMs by their pool: made, written to, kept, brought back, cloned, grown and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import pytest

from tests.contract.bench import Cases
from tests.contract.disk_bench import MIB, DiskBench
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.errors import Conflict, NoPlacement, NotFound, StillRunning
from vgpumgr.model.operation import FINAL_TASKS, TaskState
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm_devices import DiskMode

CASES = Cases[DiskBench]()
# Each step killed: a minute on a real host.
KILLS = Cases[DiskBench]()

LISTS = (CASES, KILLS)
"""Both run on a simulated host and on a real one: test_contract_disks.py."""

AT_ONCE = StopManner(force=True)


def take(bench: DiskBench, snapshot: str) -> None:
    """The snapshot; where the storage keeps no disk of a VM that runs, it is off meanwhile."""
    runs = bench.runs() and not bench.pool.running
    if runs:
        with pytest.raises(StillRunning):
            bench.engine.take_snapshot("a", snapshot)
        bench.stop()
    bench.engine.take_snapshot("a", snapshot).raise_for_failure()
    if runs:
        bench.start()


def revert(bench: DiskBench, snapshot: str) -> None:
    bench.engine.revert("a", snapshot).raise_for_failure()


@CASES.case()
def what_was_written_before_a_snapshot_is_there_after_a_revert(bench: DiskBench) -> None:
    bench.make(*bench.two)
    bench.stop()
    bench.write(1)
    take(bench, "s1")
    assert bench.read() == [1, 1]
    bench.start()
    bench.write(2)
    bench.stop()
    assert bench.read() == [2, 2]
    revert(bench, "s1")
    assert bench.read() == [1, 1]
    bench.start()
    assert bench.nothing_is_left()


@CASES.case()
def a_running_guest_writes_on_and_its_snapshot_stays(bench: DiskBench) -> None:
    bench.make(*bench.two)
    bench.write(1)
    take(bench, "s1")
    moment = DiskMoment.RUNNING if bench.pool.running else DiskMoment.OFF
    assert bench.vm().snapshots.snapshots[0].moment is moment
    bench.write(2)
    take(bench, "s2")
    bench.write(3)
    assert bench.read() == [3, 3]
    with pytest.raises(StillRunning):
        revert(bench, "s1")
    bench.engine.revert("a", "s1", stop=AT_ONCE).raise_for_failure()
    assert bench.runs()
    assert bench.read() == [1, 1]
    bench.stop()
    revert(bench, "s2")
    assert bench.read() == [2, 2]
    assert bench.nothing_is_left()


@CASES.case()
def a_guest_that_goes_off_and_on_keeps_what_it_wrote_after_a_snapshot(bench: DiskBench) -> None:
    bench.make(*bench.two)
    take(bench, "s1")
    bench.write(5)
    bench.stop()
    assert bench.read() == [5, 5]
    bench.start()
    assert bench.read() == [5, 5]


@CASES.case()
def a_snapshot_without_an_agent_is_not_frozen(bench: DiskBench) -> None:
    bench.make(*bench.two)
    with pytest.raises(Conflict):
        bench.engine.take_snapshot("a", "s1", freeze=True)
    assert bench.nothing_is_left()


@CASES.case()
def a_grown_disk_stays_large_after_a_revert(bench: DiskBench) -> None:
    bench.make(*bench.two)
    bench.stop()
    bench.write(1)
    take(bench, "s1")
    larger = (bench.pool.disk(16), bench.two[1])
    spec = replace(bench.vm().spec, disks=larger)
    bench.engine.apply([spec], restart=True)[1].raise_for_failure()
    if bench.runs():
        bench.stop()
    revert(bench, "s1")
    found = bench.host.storage.look(*bench.vm().volumes[0])
    assert found is not None and found.capacity_bytes == 16 * MIB
    assert bench.read() == [1, 1]


@CASES.case()
def a_disk_grows_under_a_guest_that_runs(bench: DiskBench) -> None:
    bench.make(*bench.two)
    bench.write(1)
    spec = replace(bench.vm().spec, disks=(bench.pool.disk(16), bench.two[1]))
    bench.engine.apply([spec])[1].raise_for_failure()
    assert bench.runs()
    assert bench.host.domains.disk_bytes("a", "vda") >= 16 * MIB
    bench.stop()
    assert bench.read() == [1, 1]
    assert bench.nothing_is_left()


@CASES.case()
def a_copy_of_a_vm_with_snapshots_stands_alone(bench: DiskBench) -> None:
    bench.make(*bench.two)
    bench.stop()
    bench.write(1)
    take(bench, "s1")
    bench.write(2)
    spec = bench.engine.clone_spec(bench.vm(), "b")
    bench.engine.apply([spec])[1].raise_for_failure()
    bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    bench.stop("b")
    assert bench.read("b") == [2, 2]
    bench.start("b")
    assert bench.nothing_is_left()


def drop(bench: DiskBench, snapshot: str) -> None:
    bench.engine.delete_snapshot("a", snapshot).raise_for_failure()


@CASES.case()
def a_deleted_snapshot_leaves_disks_and_other_snapshots_as_they_are(bench: DiskBench) -> None:
    """The oldest, one between, and the latest; the VM is off."""
    for gone in ("s1", "s2", "s3"):
        fresh(bench, running=False)
        for number, name in enumerate(("s1", "s2", "s3"), 1):
            bench.write(number)
            take(bench, name)
        bench.write(4)
        drop(bench, gone)
        assert bench.read() == [4, 4]
        assert bench.nothing_is_left()
        bench.start()
        bench.stop()
        for number, name in enumerate(("s1", "s2", "s3"), 1):
            if name != gone:
                revert(bench, name)
                assert bench.read() == [number, number]


@CASES.case()
def the_latest_snapshot_of_a_running_vm_is_deleted(bench: DiskBench) -> None:
    fresh(bench, running=True)
    take(bench, "s1")
    bench.write(2)
    take(bench, "s2")
    bench.write(3)
    with pytest.raises(StillRunning):
        drop(bench, "s1")
    drop(bench, "s2")
    assert bench.read() == [3, 3]
    drop(bench, "s1")
    assert bench.read() == [3, 3]
    assert bench.runs() and bench.nothing_is_left()
    assert len(bench.volumes()) == len(bench.there_before) + 2
    bench.stop()
    assert bench.read() == [3, 3]


@CASES.case()
def a_snapshot_that_two_things_are_laid_over_is_kept(bench: DiskBench) -> None:
    fresh(bench, running=False)
    take(bench, "s1")
    take(bench, "s2")
    revert(bench, "s1")
    with pytest.raises(Conflict) as caught:
        drop(bench, "s1")
    assert "vgpumgr vm snapshot delete a s2" in caught.value.next
    drop(bench, "s2")
    drop(bench, "s1")
    assert bench.read() == [1, 1]
    assert bench.nothing_is_left()


def cloned(bench: DiskBench, snapshot: str) -> Outcome:
    spec = bench.engine.clone_spec(bench.vm(), "b", snapshot)
    return bench.engine.apply([spec])[1]


@CASES.case()
def a_clone_of_a_snapshot_is_laid_over_it(bench: DiskBench) -> None:
    fresh(bench, running=True)
    take(bench, "s1")
    bench.write(2)
    cloned(bench, "s1").raise_for_failure()
    assert bench.read("b") == [1, 1]
    bench.write(3, "b")
    assert (bench.read(), bench.read("b")) == ([2, 2], [3, 3])
    below = [bench.host.storage.look(*each) for each in bench.vm("b").volumes]
    assert all(each and bool(each.backing_path) is bench.pool.layered for each in below)
    for refused in (
        lambda: drop(bench, "s1"),
        lambda: bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure(),
    ):
        with pytest.raises(Conflict) as caught:
            refused()
        assert "vgpumgr vm delete b" in caught.value.next
    assert bench.read("b") == [3, 3]
    bench.engine.delete(["b"], keep_disks=False, force=True).raise_for_failure()
    drop(bench, "s1")
    assert bench.read() == [2, 2]
    assert bench.nothing_is_left()


@CASES.case()
def a_clone_has_snapshots_of_its_own_and_goes_with_its_source(bench: DiskBench) -> None:
    fresh(bench, running=False)
    take(bench, "s1")
    cloned(bench, "s1").raise_for_failure()
    bench.stop("b")
    bench.write(5, "b")
    bench.engine.take_snapshot("b", "own").raise_for_failure()
    bench.write(6, "b")
    bench.engine.delete_snapshot("b", "own").raise_for_failure()
    assert bench.read("b") == [6, 6]
    bench.engine.delete(["a", "b"], keep_disks=False, force=True).raise_for_failure()
    assert bench.nothing_is_left()


@CASES.case()
def a_disk_is_made_from_a_volume_of_its_pool(bench: DiskBench) -> None:
    """Laid over it, or a copy that stands alone; larger than it either way."""
    bench.make(bench.pool.disk(4))
    bench.stop()
    bench.write(1)
    [(_, base)] = bench.vm().volumes
    bench.engine.delete(["a"], keep_disks=True, force=True).raise_for_failure()
    kind = bench.pool.format
    made = replace(bench.pool.disk(8), image=base, image_format=kind)
    for name, mode in (("b", DiskMode.OVERLAY), ("c", DiskMode.COPY)):
        bench.make(replace(made, mode=mode), name=name)
        bench.stop(name)
        assert bench.read(name) == [1]
        [found] = [bench.host.storage.look(*each) for each in bench.vm(name).volumes]
        assert found and found.capacity_bytes == 8 * MIB
    bench.engine.delete(["b"], keep_disks=False, force=True).raise_for_failure()
    bench.host.storage.delete(bench.pool.name, base)
    assert bench.read("c") == [1]
    assert bench.nothing_is_left()


@CASES.case()
def a_disk_of_another_format_than_the_pool_has_is_refused(bench: DiskBench) -> None:
    if bench.pool.layered:
        return
    with pytest.raises(NoPlacement) as caught:
        bench.make(replace(bench.pool.disk(4), format="qcow2"))
    assert "needs format: raw" in caught.value.why
    assert bench.nothing_is_left() and not bench.ledger.vms()


@dataclass(frozen=True)
class KilledCommand:
    """A command on the VM that ``prepare`` leaves, killed at each of its writes to the ledger: just
    before it and just after it. Then it is finished, or undone where there is a way back.
    ``check`` hears whether it has had its effect.
    """

    bench: DiskBench
    prepare: Callable[[], None]
    command: Callable[[Engine], Outcome]
    check: Callable[[bool], None]

    def everywhere(self) -> None:
        for after in (True, False):
            for point in count(1):
                died = self._once(point, after=after, undo=False)
                if not died:
                    break
                self._once(point, after=after, undo=True)

    def _once(self, point: int, *, after: bool, undo: bool) -> bool:
        """Whether it lived long enough to be killed there."""
        self.prepare()
        died = self.bench.killed(self.command, point, after=after)
        done = self._ended(undo=undo) if died else True
        self.check(done)
        assert self.bench.unfinished() == []
        assert self.bench.nothing_is_left(), (point, after, undo)
        return died

    def _ended(self, *, undo: bool) -> bool:
        """The same command again, or undone; has it had its effect?"""
        engine, open_ = self.bench.engine, self.bench.unfinished()
        states = [task.state for each in open_ for task in self.bench.ledger.tasks(each)]
        try:
            if not states or (not undo and FINAL_TASKS.isdisjoint(states)):
                self.command(engine).raise_for_failure()
                return True
            if undo and engine.undo(open_[0]).vms[0].state is TaskState.UNDONE:
                return False
        except (Conflict, NotFound):
            pass  # its steps say that it only goes forward, or it has ended
        for each in open_:
            engine.resume(each).raise_for_failure()
        return True


def fresh(bench: DiskBench, *, running: bool) -> None:
    """A VM of its own, with something on its disks."""
    if bench.ledger.vms():
        bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    bench.make(*bench.two)
    if not running:
        bench.stop()
    bench.write(1)


def snapshot_killed(bench: DiskBench, *, running: bool) -> None:
    def check(done: bool) -> None:
        assert (bench.vm().snapshots.find("s1") is not None) is done
        assert bench.runs() is running
        bench.write(3)
        assert bench.read() == [3, 3]
        if done:
            bench.engine.revert("a", "s1", stop=AT_ONCE).raise_for_failure()
            assert bench.read() == [1, 1]

    KilledCommand(
        bench,
        partial(fresh, bench, running=running),
        lambda engine: engine.take_snapshot("a", "s1"),
        check,
    ).everywhere()


@KILLS.case()
def a_snapshot_of_a_vm_that_is_off_is_killed(bench: DiskBench) -> None:
    snapshot_killed(bench, running=False)


@KILLS.case()
def a_snapshot_of_a_running_vm_is_killed(bench: DiskBench) -> None:
    if bench.pool.running:
        snapshot_killed(bench, running=True)
        return
    fresh(bench, running=True)
    with pytest.raises(StillRunning):
        bench.engine.take_snapshot("a", "s1")
    assert bench.runs() and bench.nothing_is_left()


def revert_killed(bench: DiskBench, *, running: bool) -> None:
    fresh(bench, running=running)
    take(bench, "s1")

    def check(done: bool) -> None:
        assert bench.runs() is running
        assert bench.read() == ([1, 1] if done else [2, 2])

    KilledCommand(
        bench,
        partial(bench.write, 2),
        lambda engine: engine.revert("a", "s1", stop=AT_ONCE),
        check,
    ).everywhere()


@KILLS.case()
def a_revert_of_a_vm_that_is_off_is_killed(bench: DiskBench) -> None:
    revert_killed(bench, running=False)


@KILLS.case()
def a_revert_of_a_running_vm_is_killed(bench: DiskBench) -> None:
    revert_killed(bench, running=True)


def deletion_killed(bench: DiskBench, *, running: bool) -> None:
    def prepare() -> None:
        fresh(bench, running=running)
        take(bench, "s1")
        bench.write(2)

    def check(done: bool) -> None:
        assert bench.runs() is running
        assert bench.read() == [2, 2]
        if not done:
            bench.engine.revert("a", "s1", stop=AT_ONCE).raise_for_failure()
            assert bench.read() == [1, 1]

    KilledCommand(
        bench, prepare, lambda engine: engine.delete_snapshot("a", "s1"), check
    ).everywhere()


@KILLS.case()
def the_deletion_of_a_snapshot_of_a_vm_that_is_off_is_killed(bench: DiskBench) -> None:
    deletion_killed(bench, running=False)


@KILLS.case()
def the_deletion_of_a_snapshot_of_a_running_vm_is_killed(bench: DiskBench) -> None:
    deletion_killed(bench, running=True)


@KILLS.case()
def a_clone_of_a_snapshot_is_killed(bench: DiskBench) -> None:
    fresh(bench, running=False)
    take(bench, "s1")
    bench.write(2)

    def check(done: bool) -> None:
        assert ("b" in [each.name for each in bench.ledger.vms()]) is done
        assert bench.read() == [2, 2]
        if done:
            assert bench.read("b") == [1, 1]
            bench.engine.delete(["b"], keep_disks=False, force=True).raise_for_failure()

    def clone(engine: Engine) -> Outcome:
        return engine.apply([engine.clone_spec(bench.vm(), "b", "s1")])[1]

    KilledCommand(bench, lambda: None, clone, check).everywhere()
