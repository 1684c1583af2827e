"""Backups of VMs, decided without a host: which are kept, and which VMs are due."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.unit.store.values import vm
from vgpumgr.engine.backups.backup_cycle import due, one_per_host
from vgpumgr.engine.steps.backup_manifest import ManifestDamaged, manifest_text, parsed
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.model.vm_backup import (
    KEEP_ALL,
    BackedUpDisk,
    BackupManifest,
    BackupState,
    BackupTarget,
    RetentionRules,
    VmBackup,
    expired,
)
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec

DAY, HOUR = 86_400.0, 3_600.0
NOON = 1_764_158_400.0  # 2025-11-26T12:00:00Z, a Wednesday
_NUMBERS = count(1)


def backup(at: float, **fields: object) -> VmBackup:
    made = VmBackup(
        id=f"{next(_NUMBERS):08x}-0000-4000-8000-000000000000",
        vm_id="vm-a",
        vm="a",
        tenant="default",
        target="vault",
        pool="backups",
        host="h1",
        created_at=at,
        moment=DiskMoment.OFF,
        state=BackupState.THERE,
        scheduled=True,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def kept(backups: list[VmBackup], **rules: int) -> list[float]:
    gone = {each.id for each in expired(backups, RetentionRules(**rules))}
    return [each.created_at for each in backups if each.id not in gone]


def test_without_rules_all_are_kept() -> None:
    assert expired([backup(NOON), backup(NOON + 1)], KEEP_ALL) == ()


def test_the_newest_are_kept_and_of_the_others_the_newest_goes_first() -> None:
    made = [backup(NOON + n) for n in range(5)]
    assert kept(made, last=2) == [NOON + 3, NOON + 4]
    assert [each.created_at for each in expired(made, RetentionRules(last=2))] == [
        NOON + 2,
        NOON + 1,
        NOON,
    ]


def test_the_newest_of_each_day_and_week_is_kept() -> None:
    made = [backup(NOON - n * 6 * HOUR) for n in reversed(range(80))]
    days = kept(made, daily=3)
    assert days == [NOON - 42 * HOUR, NOON - 18 * HOUR, NOON]
    weeks = kept(made, weekly=2)
    # Wednesday is the newest of its week, Sunday 18:00 of the one before.
    assert weeks == [NOON - 66 * HOUR, NOON]
    assert kept(made, last=1, daily=2, weekly=2) == [NOON - 66 * HOUR, NOON - 18 * HOUR, NOON]


def test_what_a_kept_one_is_laid_over_stays() -> None:
    first = backup(NOON)
    second = backup(NOON + 1, parent=first.id)
    made = [backup(NOON - 1), first, second, backup(NOON + 2), backup(NOON + 3)]
    third = backup(NOON + 4, parent=second.id, scheduled=False)
    assert kept(made, last=1) == [NOON + 3]
    assert kept([*made, third], last=1) == [NOON, NOON + 1, NOON + 3, NOON + 4]
    assert kept([first, second], last=1) == [NOON, NOON + 1]


def test_days_without_a_backup_do_not_count() -> None:
    made = [backup(NOON - n * 10 * DAY) for n in reversed(range(5))]
    assert kept(made, daily=3) == [NOON - 20 * DAY, NOON - 10 * DAY, NOON]


def test_what_a_person_made_or_is_not_whole_stays() -> None:
    made = [
        backup(NOON, scheduled=False),
        backup(NOON + 1, state=BackupState.MAKING),
        backup(NOON + 2),
        backup(NOON + 3),
    ]
    assert kept(made, last=1) == [NOON, NOON + 1, NOON + 3]


def test_the_newest_sound_one_stays_beyond_damaged_ones() -> None:
    made = [backup(NOON), backup(NOON + 1, fault="gone"), backup(NOON + 2, fault="gone")]
    assert kept(made, last=1) == [NOON, NOON + 2]


def test_the_newest_that_a_vm_comes_back_from_is_kept_beyond_one_over_a_damaged_one() -> None:
    base = backup(NOON + 1, fault="its bytes are not as they were written")
    made = [backup(NOON), base, backup(NOON + 2, parent=base.id)]
    assert kept(made, last=1) == [NOON, NOON + 1, NOON + 2]
    assert names(due(TARGET, [there("a")], made, NOON + DAY)) == ["a"]
    over_none = backup(NOON + 2, parent="00000000-0000-4000-8000-00000000dead")
    assert kept([made[0], over_none], last=1) == [NOON, NOON + 2]


TARGET = BackupTarget(name="vault", pool="backups", vms=("a*",), every_s=DAY)


def there(name: str, **fields: object) -> VmRecord:
    spec = VmSpec(name=name, vcpus=1, memory_mib=512, disks=(DiskSpec(size_bytes=1 << 20),))
    made = vm(name, id=f"vm-{name}", spec=spec, state=VmState.ACTIVE)
    return replace(made, **fields)  # type: ignore[arg-type]


def names(found: tuple[VmRecord, ...]) -> list[str]:
    return [each.name for each in found]


def test_a_vm_without_a_backup_is_due_before_one_with_an_old_one() -> None:
    vms = [there("a"), there("ab"), there("b")]
    assert names(due(TARGET, vms, [backup(NOON)], NOON + DAY)) == ["ab", "a"]
    assert names(due(TARGET, vms, [backup(NOON)], NOON + DAY - 1)) == ["ab"]
    assert due(replace(TARGET, every_s=None), vms, [], NOON) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"target": "elsewhere"},
        {"fault": "gone"},
        {"state": BackupState.LEAVING},
        {"created_at": NOON + 2 * DAY},
        {"vm_id": "vm-before"},
    ],
)
def test_what_is_no_backup_of_it_there_does_not_count(other: dict[str, object]) -> None:
    assert names(due(TARGET, [there("a")], [backup(NOON, **other)], NOON + 1)) == ["a"]


@pytest.mark.parametrize(
    "other",
    [{"definition": "<domain/>"}, {"state": VmState.MIGRATING}, {"state": VmState.DELETING}],
)
def test_what_cannot_be_backed_up_is_not_due(other: dict[str, object]) -> None:
    assert due(TARGET, [there("a", **other)], [], NOON) == ()


def test_one_vm_of_a_host_at_a_time() -> None:
    vms = [there("a"), there("ab"), there("ac", host="h2"), there("ad", host="h3")]
    assert names(tuple(one_per_host(vms, 2))) == ["a", "ac"]


UUID = "00000000-0000-4000-8000-000000000000"
MANIFEST = BackupManifest(
    version=1,
    id=UUID,
    fleet=UUID,
    vm_id=UUID,
    created_at=1.5,
    moment=DiskMoment.FROZEN,
    tenant="default",
    instance_id=UUID,
    document={"kind": "VM", "name": "a", "cloud_init": {"user_data": "ä\ud800"}},
    disks=(BackedUpDisk(guest_name="vda", volume="a-vda.qcow2", size_bytes=1, sha256="0" * 64),),
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert parsed(manifest_text(MANIFEST) + b"\0" * 512, "it") == MANIFEST


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        manifest_text(MANIFEST)[:-20],
        manifest_text(MANIFEST).replace(b"frozen", b"off"),
        manifest_text(replace(MANIFEST, version=2)),
        b"[" * 100_000,
        manifest_text(replace(MANIFEST, id="../../x")),
        manifest_text(replace(MANIFEST, vm_id=7)),  # type: ignore[arg-type]
        manifest_text(replace(MANIFEST, tenant="Ä b")),
        manifest_text(replace(MANIFEST, created_at=float("nan"))),
        manifest_text(replace(MANIFEST, created_at=1e300)),
        manifest_text(replace(MANIFEST, document="VM")),  # type: ignore[arg-type]
        manifest_text(replace(MANIFEST, disks=7)),  # type: ignore[arg-type]
        manifest_text(
            replace(MANIFEST, disks=(replace(MANIFEST.disks[0], volume="../default/other"),))
        ),
    ],
)
def test_anything_else_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestDamaged, match="it is no manifest of a backup"):
        parsed(data, "it")


def test_a_file_says_nothing_of_what_a_vm_was_restored_from() -> None:
    disk = DiskSpec(size_bytes=1 << 30, mode=DiskMode.OVERLAY, image="i.qcow2")
    asked = VmSpec(name="a", vcpus=1, memory_mib=1, disks=(disk, disk), cloud_init=CloudInit())
    back = replace(disk, restored=("backups", "a-1-vda.qcow2"))
    made = replace(asked, disks=(back, back), cloud_init=CloudInit(instance_id="old"))
    assert asked.restored_as(made) == made
    assert asked.restored_as(asked) is asked
    grown = replace(asked, disks=(replace(disk, size_bytes=2 << 30), disk, disk))
    found = grown.restored_as(made)
    assert [each.restored for each in found.disks] == [back.restored, back.restored, None]
    other = replace(asked, disks=(replace(disk, image="j.qcow2"), disk))
    assert [each.restored for each in other.restored_as(made).disks] == [None, back.restored]
    assert not made.is_laid_over({("default", "i.qcow2")})
    assert asked.is_laid_over({("default", "i.qcow2")})
