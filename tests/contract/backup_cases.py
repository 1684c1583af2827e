"""Backups of VMs: made while they are off and run, verified, restored, deleted, damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.contract.bench import Cases
from tests.contract.disk_bench import BACKUPS, CEPH, MIB, DiskBench
from vgpumgr import domainxml
from vgpumgr.engine.backups import backup_cycle
from vgpumgr.engine.backups.backup_cycle import BackupCycleReport
from vgpumgr.engine.backups.backup_restore import RestoreRequest
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.steps.backup_manifest import read_manifest, write_manifest
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict, HostRefused, NotFound, VgpumgrError
from vgpumgr.model.operation import FINAL_TASKS
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_backup import BackupState, BackupTarget, RetentionRules, VmBackup
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.spec import load

FOLDER = "default"

CASES = Cases[DiskBench]()
KILLS = Cases[DiskBench]()

LISTS = (CASES, KILLS)
"""Both run on a simulated host and on a real one: test_contract_disks.py."""

MACHINE = "1f0e2d3c-4b5a-4697-8879-0a1b2c3d4e5f"
TARGET = BackupTarget(name="vault", pool=BACKUPS)


def ready(bench: DiskBench, *, running: bool = False) -> None:
    """A VM ``a`` whose disks hold 1, and a target. One of the disks is raw."""
    bench.ledger.set_backup_target(TARGET)
    first, second = bench.two
    bench.make(first, replace(second, format="raw"), uuid=MACHINE)
    if not running:
        bench.stop()
    bench.write(1)
    if not running and bench.pool is CEPH:
        bench.start()


def off(bench: DiskBench) -> DiskMoment:
    """The moment of a backup of a VM that is off; QEMU alone reads Ceph, for a VM that runs."""
    return DiskMoment.RUNNING if bench.pool is CEPH else DiskMoment.OFF


def taken(bench: DiskBench) -> VmBackup:
    outcome, made = bench.engine.back_up("a", "vault")
    outcome.raise_for_failure()
    [found] = [each for each in bench.ledger.vm_backups() if each.id == made.id]
    assert found.state is BackupState.THERE
    return found


def read_document(document: Mapping[str, Any]) -> Sequence[VmSpec]:
    return load(json.dumps(document), "backup").vms


def restore(bench: DiskBench, backup: VmBackup, name: str = "") -> None:
    """Disks of Ceph's and LVM's come back as files."""
    request = RestoreRequest(name=name, pool="" if bench.pool.layered else FOLDER)
    spec = bench.engine.restored_spec(backup, request, read_document)
    bench.engine.apply([spec])[1].raise_for_failure()


@CASES.case()
def a_vm_that_is_off_is_restored_under_another_name(bench: DiskBench) -> None:
    ready(bench)
    made = taken(bench)
    assert made.moment is off(bench)
    bench.write(2)
    restore(bench, made, "b")
    bench.stop("b")
    assert (bench.read("a"), bench.read("b")) == ([2, 2], [1, 1])
    assert [each.format for each in bench.vm("b").spec.disks] == [bench.pool.format, "raw"]
    assert bench.vm("a").domain_uuid == MACHINE != bench.vm("b").domain_uuid
    below = [bench.host.storage.look(*each) for each in bench.vm("b").volumes]
    assert all(each is not None and not each.backing_path for each in below)
    assert bench.nothing_is_left()


@CASES.case()
def a_running_vm_is_backed_up_as_it_was_and_writes_on(bench: DiskBench) -> None:
    ready(bench, running=True)
    made = taken(bench)
    assert made.moment is DiskMoment.RUNNING and bench.runs()
    bench.write(2)
    restore(bench, made, "b")
    bench.stop("b")
    assert (bench.read("a"), bench.read("b")) == ([2, 2], [1, 1])
    assert bench.engine.verify_backup(made).fault == ""
    assert bench.nothing_is_left()


@CASES.case()
def a_deleted_vm_is_restored_under_its_own_name(bench: DiskBench) -> None:
    ready(bench)
    spec, made = bench.vm().spec, taken(bench)
    with pytest.raises(Conflict):
        restore_anew = replace(spec, disks=(DiskSpec(size_bytes=MIB),))
        bench.engine.apply([restore_anew])[1].raise_for_failure()
    bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    restore(bench, made)
    bench.stop()
    assert bench.read() == [1, 1] and bench.vm().domain_uuid == MACHINE
    if bench.pool.layered:
        plan, outcome = bench.engine.apply([spec])
        outcome.raise_for_failure()
        assert [str(each.kind) for each in plan.actions] in ([], ["start"])
    bench.engine.delete_backup(made).raise_for_failure()
    bench.stop()
    assert bench.read() == [1, 1]


@CASES.case()
def a_vm_with_snapshots_is_backed_up_as_one_disk(bench: DiskBench) -> None:
    bench.ledger.set_backup_target(TARGET)
    bench.make(bench.two[0])
    bench.stop()
    bench.write(1)
    bench.engine.take_snapshot("a", "s1").raise_for_failure()
    if bench.pool is CEPH:
        bench.start()
    made = taken(bench)
    bench.start()
    again = taken(bench)
    bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    for each in (made, again):
        restore(bench, each)
        bench.stop()
        assert bench.read() == [1]
        bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()


@CASES.case()
def a_target_in_the_folder_of_the_disks_is_no_target(bench: DiskBench) -> None:
    ready(bench)
    bench.ledger.set_backup_target(BackupTarget(name="same", pool=bench.pool.name))
    with pytest.raises(Conflict) as caught:
        bench.engine.back_up("a", "same")
    assert ("in the same folder" if bench.pool.layered else "is of kind") in caught.value.why
    bench.ledger.delete_backup_target("same")
    assert bench.ledger.vm_backups() == ()


@CASES.case()
def damage_is_told_by_a_verification(bench: DiskBench) -> None:
    ready(bench)
    made = taken(bench)
    assert bench.engine.verify_backup(made).fault == ""
    assert bench.ledger.vm_backups()[0].verified_at > 0
    bench.host.storage.upload(BACKUPS, made.volume("vdb"), b"other bytes")
    assert "are not as they were written" in bench.engine.verify_backup(made).fault
    assert bench.ledger.vm_backups()[0].fault
    bench.host.storage.delete(BACKUPS, made.volume("vda"))
    assert f"{made.volume('vda')} is gone" in bench.engine.verify_backup(made).fault
    with pytest.raises(NotFound):
        restore(bench, made, "b")


@CASES.case()
def what_has_no_manifest_is_no_backup(bench: DiskBench) -> None:
    ready(bench)
    made = taken(bench)
    bench.host.storage.upload(BACKUPS, made.manifest, b"\0" * 16)
    with pytest.raises(Conflict, match="is no manifest"):
        restore(bench, made, "b")
    bench.host.storage.delete(BACKUPS, made.manifest)
    with pytest.raises(NotFound, match="is not on its target"):
        restore(bench, made, "b")
    bench.forget_backups()


A_POOL = {
    **{"apiVersion": "vgpumgr/v1", "kind": "Pool", "name": "a", "image": "cad@1"},
    **{"gpus": [{"profile": "T4-4Q"}], "vcpus": 1, "memory": "1GiB", "max": 2},
    "entitlement": {"users": ["ada"]},
}


def forge(bench: DiskBench, backup: VmBackup, **fields: object) -> None:
    """Another hand writes a manifest with a digest that is right."""
    host = bench.host
    found = read_manifest(host, BACKUPS, backup.manifest)
    assert found is not None
    host.storage.delete(BACKUPS, backup.manifest)
    write_manifest(host, BACKUPS, backup.manifest, replace(found, **fields))  # type: ignore[arg-type]


@CASES.case()
def a_forged_manifest_makes_no_other_vm_than_a_file_could(bench: DiskBench) -> None:
    ready(bench)
    made = taken(bench)
    found = read_manifest(bench.host, BACKUPS, made.manifest)
    assert found is not None
    sound, others = dict(found.document), (replace(found.disks[0], volume="other-vda.qcow2"),)
    for fields in (
        {"document": {**sound, "name": "../../b"}},
        {"document": {**sound, "vcpus": "many"}},
        {"document": {**sound, "disks": [{"mode": "overlay", "image": "../../etc/shadow"}]}},
        {"document": {**sound, "disks": ["vda", "vdb"]}},
        {"document": {**sound, "kind": "Layout"}},
        {"document": {**sound, "replicas": 2}},
        {"document": A_POOL},
        {"document": {}},
        {"disks": found.disks[:1]},
        {"disks": (*others, *found.disks[1:])},
    ):
        forge(bench, made, document=sound, disks=found.disks)
        forge(bench, made, **fields)
        with pytest.raises(VgpumgrError):
            restore(bench, made, "" if "document" in fields else "b")
    forge(bench, made, document={**sound, "tenant": "others"}, disks=found.disks, tenant="others")
    restore(bench, made, "b")
    assert bench.vm("b").spec.tenant == "default"
    assert bench.nothing_is_left()


@CASES.case()
def volumes_of_others_on_the_target_stay(bench: DiskBench) -> None:
    ready(bench)
    theirs = VolumePlan(pool=BACKUPS, name="a-theirs.json", capacity_bytes=512, format="raw")
    bench.host.storage.create(BACKUPS, domainxml.volume(theirs))
    made = taken(bench)
    bench.engine.delete_backup(made).raise_for_failure()
    assert bench.backed_up() == {"a-theirs.json"}
    assert bench.ledger.vm_backups() == ()
    bench.host.storage.delete(BACKUPS, "a-theirs.json")


@dataclass(frozen=True)
class Later(SystemClock):
    """So many seconds after now."""

    seconds: float

    def now(self) -> float:
        return super().now() + self.seconds


def step(bench: DiskBench, after_s: float) -> BackupCycleReport:
    """What `serve` does so much later."""
    return backup_cycle.step(replace(bench.engine, clock=Later(after_s)), lambda _: True)


@CASES.case()
def what_is_due_is_backed_up_and_what_is_old_is_deleted(bench: DiskBench) -> None:
    ready(bench)
    bench.make(bench.two[0], name="other")
    by_hand = taken(bench)
    keep = RetentionRules(last=2)
    bench.ledger.set_backup_target(replace(TARGET, vms=("a*",), every_s=3600.0, keep=keep))
    assert not step(bench, 0.0).any
    for number in range(1, 5):
        done = step(bench, 3600.0 * number)
        assert [(each.vm, str(each.state)) for each in done.ended] == [("a", "done")]
        assert not done.failed and not step(bench, 3600.0 * number + 5).any
        found = bench.ledger.vm_backups()
        assert found[0] == by_hand and not by_hand.scheduled
        assert len(found) == 1 + min(number, 2)
    assert all(bench.engine.verify_backup(each).fault == "" for each in found)
    bench.ledger.set_backup_target(TARGET)


@CASES.case()
def what_was_written_since_is_laid_over_the_backup_before(bench: DiskBench) -> None:
    bench.ledger.set_backup_target(replace(TARGET, full_every=3))
    bench.make(*bench.two)
    made = []
    for value in range(1, 5):
        bench.write(value)
        made.append(taken(bench))
    remembers = bench.pool.layered
    parents = ["", made[0].id, made[1].id, ""] if remembers else [""] * 4
    assert [each.parent for each in made] == parents
    assert len(bench.host.domains.checkpoints("a")) == int(remembers)
    found = [bench.host.storage.look(BACKUPS, each.volume("vda")) for each in made]
    assert [each is not None and bool(each.backing_path) for each in found] == list(
        map(bool, parents)
    )
    for value, each in enumerate(made, 1):
        restore(bench, each, f"b{value}")
        bench.stop(f"b{value}")
        assert bench.read(f"b{value}") == [value, value]
        assert bench.engine.verify_backup(each).fault == ""
    if remembers:
        with pytest.raises(Conflict, match="is needed"):
            bench.engine.delete_backup(made[1])
        bench.host.storage.delete(BACKUPS, made[0].volume("vdb"))
        assert f"laid over {made[0].id[:8]}" in bench.engine.verify_backup(made[1]).fault
    for each in reversed(made):
        bench.engine.delete_backup(each).raise_for_failure()
    assert bench.nothing_is_left()


@CASES.case()
def a_chain_goes_over_snapshots_and_starts_and_ends_where_the_vm_was_off(bench: DiskBench) -> None:
    bench.ledger.set_backup_target(replace(TARGET, full_every=9))
    bench.make(*bench.two)
    bench.write(1)
    first, second = taken(bench), taken(bench)
    if not bench.pool.layered:
        return
    assert second.parent == first.id
    bench.engine.take_snapshot("a", "s1").raise_for_failure()
    bench.write(2)
    made = [_taken_at_last(bench)]
    bench.engine.stop_vms(["a"], force=True, timeout_s=20.0).raise_for_failure()
    bench.start()
    bench.write(3)
    made.append(_taken_at_last(bench))
    bench.stop()
    off_ = taken(bench)
    bench.start()
    on = taken(bench)
    assert all(each.parent for each in made) and off_.parent == on.parent == ""
    bench.stop()
    bench.engine.revert("a", "s1").raise_for_failure()
    bench.start()
    reverted = _taken_at_last(bench)
    assert reverted.parent == ""
    every = (*made, off_, on, reverted)
    for value, each in zip((2, 3, 3, 3, 1), every, strict=True):
        restore(bench, each, "b")
        bench.stop("b")
        assert bench.read("b") == [value, value]
        bench.engine.delete(["b"], keep_disks=False, force=True).raise_for_failure()


@CASES.case()
def what_was_written_after_a_revert_is_in_the_next_backup(bench: DiskBench) -> None:
    """The list of what changed is in a file below the new one, which has none."""
    if not bench.pool.layered:
        return
    bench.ledger.set_backup_target(replace(TARGET, full_every=9))
    bench.make(*bench.two)
    bench.write(1)
    taken(bench)
    bench.engine.take_snapshot("a", "s1").raise_for_failure()
    bench.write(2)
    bench.stop()
    bench.engine.revert("a", "s1").raise_for_failure()
    bench.start()
    bench.write(3)
    made = _taken_at_last(bench)
    restore(bench, made, "b")
    bench.stop("b")
    assert bench.read("b") == [3, 3]


def _taken_at_last(bench: DiskBench) -> VmBackup:
    """At once, or as a full one after the host has said that it does not remember."""
    try:
        return taken(bench)
    except HostRefused as error:
        assert "is not known" in error.message
        return taken(bench)


@CASES.case()
def backups_that_the_ledger_lost_are_found(bench: DiskBench) -> None:
    ready(bench)
    made = taken(bench)
    bench.ledger.backup_lost(made.id)
    assert bench.ledger.vm_backups() == ()
    bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    report = bench.engine.search_backups("vault")
    assert [each.id for each in report.found] == [made.id] and not report.unreadable
    assert bench.engine.search_backups("vault").found == ()
    [found] = bench.ledger.vm_backups()
    restore(bench, found)
    bench.stop()
    assert bench.read() == [1, 1]


@KILLS.case()
def a_backup_is_killed_at_each_write(bench: DiskBench) -> None:
    for running in (False, True):
        for after in (True, False):
            for point in count(1):
                ready(bench, running=running)
                died = bench.killed(lambda engine: engine.back_up("a")[0], point, after=after)
                _ended(bench)
                assert bench.read() == [1, 1]
                bench.clear()
                if not died:
                    break


@KILLS.case()
def a_backup_of_what_was_written_since_is_killed_at_each_write(bench: DiskBench) -> None:
    for after in (True, False):
        for point in count(1):
            ready(bench, running=True)
            bench.ledger.set_backup_target(replace(TARGET, full_every=9))
            taken(bench)
            bench.write(2)
            died = bench.killed(lambda engine: engine.back_up("a")[0], point, after=after)
            _ended(bench)
            bench.write(3)
            made = _taken_at_last(bench)
            restore(bench, made, "b")
            bench.stop("b")
            assert bench.read("b") == [3, 3]
            bench.clear()
            if not died:
                break


@KILLS.case()
def a_deletion_is_killed_at_each_write(bench: DiskBench) -> None:
    for after in (True, False):
        for point in count(1):
            ready(bench)
            made = taken(bench)
            delete = partial(_delete, made)
            died = bench.killed(delete, point, after=after)
            _ended(bench)
            bench.clear()
            if not died:
                break


def _delete(backup: VmBackup, engine: Engine) -> Outcome:
    return engine.delete_backup(backup)


def _ended(bench: DiskBench) -> None:
    """Each open operation is finished; then there are whole backups, or nothing."""
    for operation in bench.unfinished():
        tasks = bench.ledger.tasks(operation)
        if any(task.state not in FINAL_TASKS for task in tasks):
            bench.engine.resume(operation).raise_for_failure()
        else:
            bench.engine.resume(operation)
    known = bench.ledger.vm_backups()
    assert all(each.state is BackupState.THERE for each in known)
    volumes = {
        name for each in known for name in (each.manifest, each.volume("vda"), each.volume("vdb"))
    }
    assert bench.backed_up() == volumes
    assert all(bench.engine.verify_backup(each).fault == "" for each in known)
    assert bench.nothing_is_left()
