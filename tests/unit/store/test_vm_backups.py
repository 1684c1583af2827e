"""Backups of VMs in the ledger: begun with an operation, ended by its tasks; their targets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store.values import fleet
from vgpumgr.model.errors import Conflict, InUse, NotFound, StaleGeneration
from vgpumgr.model.operation import (
    BACK_UP,
    DROP_BACKUP,
    OperationRecord,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm_backup import BackupState, BackupTarget, RetentionRules, VmBackup
from vgpumgr.store import SqlLedger

VAULT = BackupTarget(
    name="vault",
    pool="backups",
    vms=("web-*",),
    every_s=3600.0,
    keep=RetentionRules(last=2, weekly=4),
    freeze=True,
)


def backup(id_: str, **fields: object) -> VmBackup:
    made = VmBackup(
        id=id_,
        vm_id="vm-desk",
        vm="desk",
        tenant="default",
        target="vault",
        pool="backups",
        host="h1",
        created_at=10.0,
        moment=DiskMoment.FROZEN,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def begin(ledger: SqlLedger, id_: str, *backups: VmBackup, verb: str = BACK_UP) -> None:
    if not ledger.backup_targets():
        ledger.set_backup_target(VAULT)
    operation = OperationRecord(
        id=id_, kind="backup create", state=OperationState.RUNNING, epoch=1, started_at=20.0
    )
    made = tuple(replace(each, task=f"{id_}-{each.id}") for each in backups)
    tasks = tuple(
        TaskRecord(
            id=each.task, operation=id_, vm_id=each.vm_id, vm=each.vm, host="h1", verb=verb,
            steps=(),
        )
        for each in made
    )  # fmt: skip
    ledger.reserve(Reservation(operation=operation, tasks=tasks, backups=made))


def end(ledger: SqlLedger, task: str, state: BackupState, *, undone: bool = False) -> None:
    way = (TaskState.UNDOING, TaskState.UNDONE) if undone else (TaskState.RUNNING, TaskState.DONE)
    ledger.record(
        TaskMoved(task=task, state=way[0]), TaskMoved(task=task, state=way[1], backup=state)
    )


def states(ledger: SqlLedger) -> list[tuple[str, BackupState]]:
    return [(each.id, each.state) for each in ledger.vm_backups()]


def test_a_backup_is_there_when_its_task_is_done(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", backup("b-1"), backup("b-2", created_at=5.0))
    assert ledger.vm_backups()[1] == backup("b-1", task="o-1-b-1")
    end(ledger, "o-1-b-1", BackupState.THERE)
    end(ledger, "o-1-b-2", BackupState.GONE, undone=True)
    assert states(ledger) == [("b-1", BackupState.THERE)]
    set_, *events = [each.event for each in reversed(ledger.audit(event="backup"))]
    assert set_ == "backup.target-set"
    assert events == ["backup.making", "backup.making", "backup.there", "backup.gone"]
    found = ledger.audit(event="backup.there")[0]
    assert (found.vm, found.host, found.detail) == ("desk", "h1", "b-1 on target vault")


def test_none_is_begun_on_a_target_that_was_deleted_or_lies_elsewhere_now(url: str) -> None:
    ledger = fleet(url)
    ledger.set_backup_target(BackupTarget(name="vault", pool="elsewhere"))
    with pytest.raises(StaleGeneration, match="vault is not what it was"):
        begin(ledger, "o-1", backup("b-1"))
    with pytest.raises(StaleGeneration):
        begin(ledger, "o-2", backup("b-2", target="gone"))
    assert states(ledger) == []


def test_a_backup_leaves_once_and_stays_where_that_is_undone(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", backup("b-1"))
    leaving = backup("b-1", state=BackupState.LEAVING)
    with pytest.raises(StaleGeneration):
        begin(ledger, "o-2", leaving, verb=DROP_BACKUP)
    end(ledger, "o-1-b-1", BackupState.THERE)
    begin(ledger, "o-3", leaving, verb=DROP_BACKUP)
    with pytest.raises(StaleGeneration):
        begin(ledger, "o-4", leaving, verb=DROP_BACKUP)
    end(ledger, "o-3-b-1", BackupState.THERE, undone=True)
    assert states(ledger) == [("b-1", BackupState.THERE)]
    begin(ledger, "o-5", leaving, verb=DROP_BACKUP)
    end(ledger, "o-5-b-1", BackupState.GONE)
    assert states(ledger) == []


def test_what_a_verification_found_is_kept_and_told(url: str) -> None:
    ledger = fleet(url)
    ledger.enter_backup(backup("b-1"))
    ledger.backup_verified("b-1", "a volume is gone")
    [found] = ledger.vm_backups()
    assert found.fault == "a volume is gone" and found.verified_at > 0
    ledger.backup_verified("b-1", "")
    assert ledger.vm_backups()[0].fault == ""
    told = [(each.event, each.detail) for each in reversed(ledger.audit(event="backup"))]
    assert told == [
        ("backup.found", "b-1 on target vault"),
        ("backup.faulty", "b-1 on target vault: a volume is gone"),
        ("backup.verified", "b-1 on target vault"),
    ]
    ledger.backup_lost("b-1")
    for gone in (lambda: ledger.backup_lost("b-1"), lambda: ledger.backup_verified("b-1", "")):
        with pytest.raises(NotFound):
            gone()


def test_a_backup_that_was_found_is_entered_once_and_again_after_it_was_lost(url: str) -> None:
    ledger = fleet(url)
    ledger.enter_backup(backup("b-1"))
    ledger.enter_backup(backup("b-1", vm="other"))
    assert ledger.vm_backups() == (backup("b-1", state=BackupState.THERE),)
    ledger.backup_lost("b-1")
    ledger.enter_backup(backup("b-1", host="h2"))
    assert ledger.vm_backups() == (backup("b-1", state=BackupState.THERE, host="h2"),)


def test_a_target_is_as_it_was_set_last(url: str) -> None:
    ledger = fleet(url)
    ledger.set_backup_target(BackupTarget(name="vault", pool="old"))
    ledger.set_backup_target(VAULT)
    ledger.set_backup_target(BackupTarget(name="b", pool="p"))
    b, vault = ledger.backup_targets()
    assert b.name == "b" and vault.set_at > 0
    assert replace(vault, set_at=0.0, set_by="") == VAULT
    assert vault.every("web-1", None) == 3600.0 and vault.every("db", None) is None
    ledger.delete_backup_target("b")
    with pytest.raises(NotFound, match="no backup target vaul"):
        ledger.delete_backup_target("vaul")


def test_a_target_with_backups_stays_and_keeps_its_pool(url: str) -> None:
    ledger = fleet(url)
    ledger.set_backup_target(VAULT)
    ledger.enter_backup(backup("b-1"))
    with pytest.raises(InUse, match="is in use") as caught:
        ledger.delete_backup_target("vault")
    assert caught.value.why == "1 backup on it"
    with pytest.raises(InUse, match="cannot have another pool"):
        ledger.set_backup_target(replace(VAULT, pool="other"))
    ledger.set_backup_target(replace(VAULT, vms=("*",)))
    ledger.backup_lost("b-1")
    ledger.delete_backup_target("vault")
    assert ledger.backup_targets() == ()


def test_the_number_of_targets_has_an_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpumgr.store.ledger.vm_backups.MOST_TARGETS", 1)
    ledger = fleet(url)
    ledger.set_backup_target(VAULT)
    ledger.set_backup_target(VAULT)
    with pytest.raises(Conflict, match="there are 1 backup targets already"):
        ledger.set_backup_target(replace(VAULT, name="more"))


def test_none_is_laid_over_one_that_leaves_and_none_leaves_below_another(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", backup("b-1"), backup("b-2"))
    end(ledger, "o-1-b-1", BackupState.THERE)
    end(ledger, "o-1-b-2", BackupState.THERE)
    leaving = replace(backup("b-1"), state=BackupState.LEAVING)
    begin(ledger, "o-2", leaving, verb=DROP_BACKUP)
    with pytest.raises(StaleGeneration, match="is not there any more"):
        begin(ledger, "o-3", backup("b-3", parent="b-1"))
    begin(ledger, "o-4", backup("b-4", parent="b-2"))
    with pytest.raises(StaleGeneration, match="is needed"):
        begin(ledger, "o-5", replace(leaving, id="b-2"), verb=DROP_BACKUP)
    assert dict(states(ledger))["b-2"] is BackupState.THERE
