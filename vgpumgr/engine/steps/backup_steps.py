"""The step that backs up a VM: its disks copied to the target, then the manifest."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr import domainxml
from vgpumgr.engine.steps.backup_manifest import ManifestDamaged, read_manifest, write_manifest
from vgpumgr.engine.steps.domain_steps import POLL_S, find_ours, ours_of
from vgpumgr.engine.steps.step import TOLD_EVERY, Step, StepSurroundings
from vgpumgr.engine.steps.tpm_backup import digest_of, tpm_text, write_tpm
from vgpumgr.engine.steps.volume_steps import file_digest
from vgpumgr.model.domain import OFF, VolumeFacts, VolumePlan
from vgpumgr.model.errors import Conflict, HostRefused, Interrupted, NotFound
from vgpumgr.model.formats import size_words
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_backup import MANIFEST_VERSION, BackedUpDisk, BackupManifest

_FORMAT = "qcow2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDisk:
    """A disk to copy: its volume, and the one on the target that gets its content. ``below`` is the
    volume there that this one is laid over, empty for a full copy.
    """

    guest_name: str
    pool: str
    name: str
    copy: str
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackUpDisks(Step):
    """Copy all disks of a VM as they are at one moment, compare nothing, write what they are.

    The manifest is what tells a whole backup from half of one: a cut attempt begins again,
    since what it copied is of another moment. A VM that is off is read by the host's
    qemu-img, under QEMU's locks; one that runs is copied by its own QEMU, which remembers from then
    on what is written (``checkpoint``, empty: nothing). With ``since``, an earlier checkpoint, and
    ``parent``, the backup of that moment, what was written after it is all that is copied. ``tpm``
    is the volume for what the TPM of the domain of that ``uuid`` holds, empty: it has none.
    """

    backup: str
    fleet: str
    name: str
    vm_id: str
    pool: str
    manifest: str
    disks: tuple[SourceDisk, ...]
    moment: DiskMoment
    checkpoint: str = ""
    since: str = ""
    parent: str = ""
    forget: str = ""
    tpm: str = ""
    uuid: str = ""

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"back up {self.name} to {self.pool}"

    def look(self, host: Host) -> Observed:
        """Is its manifest there?"""
        try:
            found = read_manifest(host, self.pool, self.manifest)
        except ManifestDamaged as error:
            return Differs(error.message)
        if found is None or found.id != self.backup:
            return Differs("it is not there")
        return InState()

    def act(self, host: Host, clock: Clock) -> None:
        """It needs the VM's record: :meth:`within`."""
        self.within(host, StepSurroundings(clock, threading.Event(), lambda _: None))

    def within(self, host: Host, around: StepSurroundings) -> None:
        """Copy, then write the manifest and read it back. A conflict is a refusal here: all volumes
        of these names are ours, and are deleted.
        """
        try:
            self._within(host, around)
        except Conflict as error:
            raise HostRefused(error.message, why=error.why, next=error.next) from error

    def _within(self, host: Host, around: StepSurroundings) -> None:
        if isinstance(self.look(host), InState):
            return
        vm = self._vm(around)
        self.undo(host)
        at, tpm = around.clock.now(), tpm_text(host, self.uuid) if self.tpm else b""
        if self.moment is DiskMoment.OFF:
            self._copy(host, around)
        else:
            self._push(host, around)
        disks = tuple(self._described(host, each, around) for each in self.disks)
        self._keep_tpm(host, tpm)
        manifest = replace(self._manifest(vm, at, disks), tpm=digest_of(tpm))
        write_manifest(host, self.pool, self.manifest, manifest)
        if not isinstance(self.look(host), InState):
            raise HostRefused(
                f"{self.summary}: the manifest on {host.name} is not what was written",
                next="the same command again",
            )
        self._forget_earlier(host)

    def _keep_tpm(self, host: Host, text: bytes) -> None:
        """What was read before the disks were is of their moment, if it is the same after it."""
        if not self.tpm:
            return
        if tpm_text(host, self.uuid) != text:
            raise HostRefused(
                f"{self.summary}: its TPM was written to while its disks were copied",
                why="its state would be of another moment than its disks",
                next="the same command again, or with the VM off",
            )
        if text:
            write_tpm(host, self.pool, self.tpm, text)

    def _forget_earlier(self, host: Host) -> None:
        """What is written is remembered since this backup alone; a refusal is met next time."""
        ours = ours_of(host, self.name, self.vm_id) if self.forget else ""
        if ours:
            with suppress(HostRefused):
                for each in host.domains.checkpoints(ours):
                    if each.startswith(self.forget) and each != self.checkpoint:
                        host.domains.forget_checkpoint(ours, each)

    def undo(self, host: Host) -> None:
        """No backup, and none of its volumes: the manifest goes first."""
        if self.moment is not DiskMoment.OFF and (ours := ours_of(host, self.name, self.vm_id)):
            host.domains.cancel_backup(ours, self._files(host))
            if self.moment is DiskMoment.FROZEN:
                host.domains.thaw(ours)
            if self.checkpoint:
                host.domains.forget_checkpoint(ours, self.checkpoint)
        others = [self.tpm] if self.tpm else []
        for volume in (self.manifest, *others, *(each.copy for each in self.disks)):
            host.storage.delete(self.pool, volume)

    def _vm(self, around: StepSurroundings) -> VmRecord:
        vm = around.vm(self.name)
        if vm.id != self.vm_id:
            raise NotFound(f"{self.name} was deleted", why="another VM has its name now")
        return vm

    def _copy(self, host: Host, around: StepSurroundings) -> None:
        for each in self.disks:
            self._require_off(host)
            if around.stop.is_set():
                raise Interrupted(f"{self.summary}: interrupted")
            source = self._source(host, each)
            around.tell(f"{each.guest_name}: {size_words(source.capacity_bytes)} at most")
            host.storage.create(
                self.pool,
                domainxml.volume(self._plan(each, source, mode="copy")),
                copy_from=each.name,
                from_pool=each.pool,
            )
        self._require_off(host)

    def _require_off(self, host: Host) -> None:
        found = find_ours(host, self.name, self.vm_id)
        if found is not None and found.state not in OFF:
            raise HostRefused(
                f"{self.name} was started on {host.name} while its disks were read",
                why="they would be of no moment in particular",
                next="the same command again",
            )

    def _push(self, host: Host, around: StepSurroundings) -> None:
        for each in self.disks:
            plan = self._plan(each, self._source(host, each))
            if each.below:
                plan = replace(plan, source_path=self._below(host, each))
            host.storage.create(self.pool, domainxml.volume(plan))
        ours, files = ours_of(host, self.name, self.vm_id), self._files(host)
        if not ours:
            raise HostRefused(f"{self.name} is not on {host.name}", why="its domain is gone")
        self._begin(host, ours, files)
        self._follow(host, ours, files, around)

    def _begin(self, host: Host, domain: str, files: Mapping[str, str]) -> None:
        """A disk that QEMU writes no list of changes into, as its file is of an old version, is
        copied without one.
        """
        freeze, mark = self.moment is DiskMoment.FROZEN, self.checkpoint
        begin = partial(host.domains.begin_backup, domain, files, freeze=freeze)
        try:
            begin(checkpoint=mark, since=self.since)
        except HostRefused as error:
            if not mark:
                raise
            if not self.since:
                begin()
                return
            host.domains.forget_checkpoint(domain, self.since)
            raise HostRefused(
                f"{self.summary}: what was written since {self.since} is not known",
                why=error.why,
                next="the same command again: that backup is a full one",
            ) from error

    def _follow(
        self, host: Host, domain: str, files: Mapping[str, str], around: StepSurroundings
    ) -> None:
        """Until QEMU has copied everything."""
        told = -1.0
        while (left := host.domains.backup_progress(domain)) is not None:
            if around.stop.is_set():
                host.domains.cancel_backup(domain, files)
                raise Interrupted(f"{self.summary}: interrupted")
            done = 1 - left.left_bytes / (left.total_bytes or 1)
            if done - told >= TOLD_EVERY:
                told = done
                around.tell(f"{self.summary}: {done:.0%}")
            around.clock.wait(POLL_S)

    def _files(self, host: Host) -> dict[str, str]:
        """The path of each copy that is there, by its disk's target."""
        found = {each.guest_name: host.storage.look(self.pool, each.copy) for each in self.disks}
        return {target: facts.path for target, facts in found.items() if facts is not None}

    def _below(self, host: Host, disk: SourceDisk) -> str:
        """The file's name in the target's folder, which other hosts may have elsewhere."""
        found = host.storage.look(self.pool, disk.below)
        if found is None:
            raise HostRefused(
                f"{self.pool}/{disk.below} on {host.name} is gone",
                why="a backup of what was written since would be laid over it",
                next="vgpumgr backup list",
            )
        return posixpath.basename(found.path)

    def _source(self, host: Host, disk: SourceDisk) -> VolumeFacts:
        found = host.storage.look(disk.pool, disk.name)
        if found is None:
            raise HostRefused(
                f"volume {disk.pool}/{disk.name} of {self.name} is not on {host.name}",
                next=f"vgpumgr drift {host.name}",
            )
        return found

    def _plan(self, disk: SourceDisk, source: VolumeFacts, *, mode: str = "fresh") -> VolumePlan:
        plain = VolumePlan(
            pool=self.pool, name=disk.copy, capacity_bytes=source.capacity_bytes, format=_FORMAT
        )
        if disk.below:
            return replace(plain, mode="overlay", source=disk.below, source_format=_FORMAT)
        return replace(
            plain,
            mode=mode,
            source=disk.name if mode == "copy" else None,
            source_pool=disk.pool if mode == "copy" else "",
        )

    def _described(self, host: Host, disk: SourceDisk, around: StepSurroundings) -> BackedUpDisk:
        found = host.storage.look(self.pool, disk.copy)
        if found is None:
            raise HostRefused(f"volume {self.pool}/{disk.copy} on {host.name} is gone")
        around.tell(f"{disk.guest_name} is read for its digest")
        return BackedUpDisk(
            guest_name=disk.guest_name,
            volume=disk.copy,
            size_bytes=found.capacity_bytes,
            sha256=str(file_digest(host, found.path)),
        )

    def _manifest(self, vm: VmRecord, at: float, disks: tuple[BackedUpDisk, ...]) -> BackupManifest:
        from vgpumgr.spec import vm_document  # slow to import

        seed = vm.spec.cloud_init
        return BackupManifest(
            version=MANIFEST_VERSION,
            id=self.backup,
            fleet=self.fleet,
            vm_id=vm.id,
            created_at=at,
            moment=self.moment,
            tenant=vm.spec.tenant,
            instance_id=(seed.instance_id if seed else "") or vm.id,
            document=vm_document(vm.spec),
            disks=disks,
            parent=self.parent,
        )
