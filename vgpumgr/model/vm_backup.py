"""Backups of VMs: where they go, what each is, and which are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Protocol

from vgpumgr.model.snapshot import DiskMoment

MOST_TARGETS = 100
"""The most targets that a fleet has."""

MOST_KEPT = 10_000
"""The most backups of a VM that one rule keeps."""

MOST_CHAIN = 64
"""The most backups that are laid over each other: a restored disk is read through all of them."""

LEAST_EVERY_S, MOST_EVERY_S = 60.0, 366 * 86_400.0
"""How often a VM may be backed up by itself, in seconds."""

MANIFEST_VERSION = 1


class BackupState(StrEnum):
    """A backup is used while it is there; half a backup is none."""

    MAKING = "making"
    THERE = "there"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """Which of a VM's scheduled backups are kept: the newest ``last``, and the newest of each of
    the newest ``daily`` days and ``weekly`` ISO weeks (UTC) that have one. All 0: every one.
    """

    last: int = 0
    daily: int = 0
    weekly: int = 0

    @property
    def keeps_all(self) -> bool:
        """Is nothing ever deleted?"""
        return not (self.last or self.daily or self.weekly)


KEEP_ALL = RetentionRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBackups:
    """What a VM's own file says of its backups: on ``target`` every ``every_s`` seconds, kept by
    rules of its own. No target's patterns are asked for such a VM.
    """

    target: str
    every_s: float
    keep: RetentionRules = KEEP_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupTarget:
    """Where backups go: the storage pool of that name on the hosts of the VMs. VMs whose names
    match one of ``vms`` (shell patterns; empty: none) are backed up ``every_s`` seconds; with
    ``freeze`` guests that have an agent are frozen for that moment. Each ``full_every``-th of a VM
    is a full one, and the others hold what was written since the one before, where QEMU can tell.
    ``set_at`` is in Unix seconds.
    """

    name: str
    pool: str
    vms: tuple[str, ...] = ()
    every_s: float | None = None
    keep: RetentionRules = KEEP_ALL
    freeze: bool = False
    full_every: int = 1
    set_at: float = 0.0
    set_by: str = ""

    def every(self, vm: str, own: OwnBackups | None) -> float | None:
        """How often the VM of that name is backed up here, in seconds; None: not by itself."""
        if own is not None:
            return own.every_s if own.target == self.name else None
        return self.every_s if any(fnmatchcase(vm, each) for each in self.vms) else None

    def keeps(self, own: OwnBackups | None) -> RetentionRules:
        """Which backups of a VM are kept here."""
        return own.keep if own is not None and own.target == self.name else self.keep


@dataclass(frozen=True, slots=True, kw_only=True)
class VmBackup:
    """One backup of a VM: what all its disks held at one moment, on a target. ``host`` made it.
    ``vm`` is what the VM was called then.

    ``scheduled``: `serve` made it, and retention may delete it. ``verified_at`` is when its bytes
    were compared with its manifest last (Unix seconds, 0: never); ``fault`` what was wrong with it
    then, empty for nothing. ``task`` is the one that makes it, or deletes it. ``parent`` is the
    backup (its id) that it is laid over, empty for a full one.
    """

    id: str
    vm_id: str
    vm: str
    tenant: str
    target: str
    pool: str
    host: str
    created_at: float
    moment: DiskMoment
    state: BackupState = BackupState.MAKING
    scheduled: bool = False
    verified_at: float = 0.0
    fault: str = ""
    task: str = ""
    parent: str = ""

    @property
    def checkpoint(self) -> str:
        """What libvirt calls the moment, from which on it remembers what is written."""
        return f"{checkpoints_of(self.target)}{self.id[:8]}"

    @property
    def prefix(self) -> str:
        """What the names of its volumes begin with. It carries our id, so that it is ours alone."""
        return f"{self.vm}-{self.id[:8]}"

    @property
    def manifest(self) -> str:
        """The volume of its manifest: with that it is a backup, without it is none."""
        return f"{self.prefix}.json"

    @property
    def tpm_volume(self) -> str:
        """The volume of what its TPM held."""
        return tpm_volume_of(self.prefix)

    def volume(self, guest_name: str) -> str:
        """The volume of a disk (``vda``)."""
        return f"{self.prefix}-{guest_name}.qcow2"


def tpm_volume_of(prefix: str) -> str:
    """The volume of what a VM's TPM held, by what all names of the backup begin with."""
    return f"{prefix}-tpm.json"


def checkpoints_of(target: str) -> str:
    """What the names of a VM's checkpoints for that target begin with."""
    return f"vgpumgr-{target}-"


def chain_of(backup: VmBackup, backups: Iterable[VmBackup]) -> tuple[VmBackup, ...]:
    """The backup, the one that it is laid over, and so on, as far as they are known."""
    known, found = {each.id: each for each in backups}, [backup]
    while (below := known.get(found[-1].parent)) is not None and below not in found:
        found.append(below)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpDisk:
    """A disk in a backup: the ``volume`` with its content, a qcow2 file of that SHA-256, and the
    size that the guest sees.
    """

    guest_name: str
    volume: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """What is written next to the disks, last: all that the VM needs to be there again. ``fleet``
    is the id of the fleet that made it, ``document`` the VM as a file would ask for it,
    ``instance_id`` the one by which cloud-init in its guest knows it. ``parent`` is the id of the
    backup that it is laid over, ``tpm`` the SHA-256 of what its TPM held; empty: nothing.
    """

    version: int
    id: str
    fleet: str
    vm_id: str
    created_at: float
    moment: DiskMoment
    tenant: str
    instance_id: str
    document: Mapping[str, Any]
    disks: tuple[BackedUpDisk, ...]
    parent: str = ""
    tpm: str = ""


def damaged(backups: Iterable[VmBackup]) -> frozenset[str]:
    """The ids of backups from which no VM comes back, as far as is known: with a fault of their
    own, or laid over one that has a fault, or that is gone.
    """
    known = tuple(backups)
    chains = {each.id: chain_of(each, known) for each in known}
    return frozenset(
        name
        for name, chain in chains.items()
        if chain[-1].parent or any(each.fault for each in chain)
    )


def expired(backups: Iterable[VmBackup], keep: RetentionRules) -> tuple[VmBackup, ...]:
    """The scheduled backups of one VM on one target that the rules let go, the newest first, as one
    is laid over older ones. The newest that a VM comes back from, as far as is known, is never
    among them, nor what a kept one is laid over.
    """
    every = tuple(backups)
    mine = [each for each in every if each.scheduled and each.state is BackupState.THERE]
    newest = sorted(mine, key=lambda each: each.created_at, reverse=True)
    if keep.keeps_all:
        return ()
    unsound = damaged(every)
    sound = [each for each in newest if each.id not in unsound]
    kept = {each.id for each in (*newest[: keep.last], *sound[: max(1, keep.last)])}
    kept |= {*_of_spans(sound, "%Y-%j", keep.daily), *_of_spans(sound, "%G-%V", keep.weekly)}
    others = {each.id for each in every if each not in mine}
    above = [each for each in every if each.id in kept | others]
    kept |= {below.id for each in above for below in chain_of(each, every)}
    return tuple(each for each in newest if each.id not in kept)


def _of_spans(newest: Iterable[VmBackup], span: str, most: int) -> Iterator[str]:
    """The newest of each of the newest ``most`` days or weeks."""
    seen: set[str] = set()
    for each in newest:
        name = datetime.fromtimestamp(each.created_at, UTC).strftime(span)
        if name not in seen and len(seen) < most:
            seen.add(name)
            yield each.id


class BackupLedger(Protocol):
    """Backups of VMs in the ledger. Every method is one transaction."""

    def backup_targets(self) -> tuple[BackupTarget, ...]:
        """Every target, by name."""

    def set_backup_target(self, target: BackupTarget) -> None:
        """Write a target over the one of that name; Conflict where there are too many, or where
        its pool would change while there are backups on it.
        """

    def delete_backup_target(self, name: str) -> None:
        """Forget a target; NotFound, or InUse while there are backups on it."""

    def vm_backups(self, vm_id: str = "") -> tuple[VmBackup, ...]:
        """Every backup that is not gone, or those of one VM, the oldest first."""

    def enter_backup(self, backup: VmBackup) -> None:
        """A backup that was found on its target; one that is known already is left alone."""

    def backup_verified(self, backup: str, fault: str) -> None:
        """It was compared with its manifest; ``fault`` is what is wrong, empty: nothing."""

    def backup_lost(self, backup: str) -> None:
        """It is on its target no more: another hand deleted it."""
