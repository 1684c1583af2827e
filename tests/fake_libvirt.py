"""libvirt's domains and storage on a fake host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr import domainxml
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import (
    DomainFacts,
    DomainState,
    GuestFacts,
    KeptBeside,
    LiveMove,
    MoveProgress,
    Ownership,
    VolumeFacts,
    VolumePlan,
)
from vgpumgr.model.errors import Conflict, HostRefused, NotFound
from vgpumgr.model.guest import GuestAnswer, GuestCommand
from vgpumgr.model.host import StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.sim.libvirt.domain_needs import with_files

if TYPE_CHECKING:
    from tests.fakes import FakeHost


@dataclass
class FakeDomains:
    """libvirt's domains of the host."""

    host: FakeHost

    def list(self) -> tuple[DomainFacts, ...]:
        return tuple(self.host.domains_by_name.values())

    def look(self, name: str) -> DomainFacts | None:
        found = self.host.call("look", name, effect=lambda: self.host.domains_by_name.get(name))
        return found if isinstance(found, DomainFacts) else None

    def xml(self, name: str) -> str:
        if name not in self.host.xml_by_name:
            raise NotFound(f"there is no domain {name}")
        return self.host.xml_by_name[name]

    def define(self, xml: str) -> str:
        return str(self.host.call("define", xml, effect=lambda: self._define(xml)))

    def start(self, name: str) -> None:
        name = self._named(name)
        self.host.call("start", name, effect=lambda: self._start(name))

    def shutdown(self, name: str) -> None:
        name = self._named(name)
        ignored = self.host.guests_ignore_acpi
        self.host.call("shutdown", name, effect=lambda: ignored or self._off(name))

    def reboot(self, name: str) -> None:
        name = self._named(name)
        self.host.call("reboot", name, effect=lambda: self._known(name))

    def destroy(self, name: str) -> None:
        name = self._named(name)
        self.host.call("destroy", name, effect=lambda: self._off(name))

    def undefine(self, name: str, *, keep_tpm: bool = False) -> None:
        name = self._named(name)
        self.host.call("undefine", name, effect=lambda: self._forget(name))

    def set_autostart(self, name: str, on: bool) -> None:
        name = self._named(name)
        self.host.call("autostart", name, on, effect=lambda: self._change(name, autostart=on))

    def live_xml(self, name: str) -> str:
        found = self.host.call("live_xml", name, effect=lambda: self._live(name))
        return str(found)

    def set_ownership(self, name: str, mark: Ownership | None) -> None:
        self.host.call("set_ownership", name, mark, effect=lambda: self._mark(name, mark))

    def _mark(self, name: str, mark: Ownership | None) -> None:
        self._change(name, ownership=mark)
        for xmls in (self.host.xml_by_name, self.host.live_by_name):
            if name in xmls:
                bare = domainxml.without_mark(xmls[name])
                marked = mark and domainxml.with_mark(bare, domainxml.mark_text(mark))
                xmls[name] = marked or bare

    def kept_beside(self, name: str) -> KeptBeside:
        effect = self.host.kept_beside.get
        found = self.host.call("kept_beside", name, effect=lambda: effect(name))
        return found if isinstance(found, KeptBeside) else KeptBeside()

    def cpu_fits(self, xml: str) -> bool | None:
        found = self.host.call("cpu_fits", xml, effect=lambda: self.host.cpu_fits)
        return found if isinstance(found, bool) else None

    def migrate(self, move: LiveMove, target: Host) -> None:
        self.host.call("migrate", move, target.name, effect=lambda: self._migrate(move, target))

    def cancel_migration(self, name: str) -> None:
        self.host.call("cancel_migration", name, effect=lambda: self.host.moving.pop(name, None))

    def migration_progress(self, name: str) -> MoveProgress | None:
        effect = self.host.moving.get
        found = self.host.call("migration_progress", name, effect=lambda: effect(name))
        return found if isinstance(found, MoveProgress) else None

    def resume(self, name: str) -> None:
        self.host.call("resume", name, effect=lambda: self._resume(name))

    def guest(self, name: str) -> GuestFacts | None:
        effect = self.host.guests.get
        found = self.host.call("guest", name, effect=lambda: effect(name))
        return found if isinstance(found, GuestFacts) else None

    def run_in_guest(self, name: str, command: GuestCommand) -> GuestAnswer | None:
        """What the test said that the program prints, by its first word."""

        def effect() -> object:
            told = self.host.programs.get(name)
            return None if told is None else told(command.run)

        found = self.host.call("run_in_guest", name, command.run, effect=effect)
        return found if isinstance(found, GuestAnswer) else None

    def switch_disks(self, name: str, files: Mapping[str, str], *, freeze: bool) -> None:
        name = self._named(name)
        effect = partial(self._switch, name, files, freeze)
        self.host.call("switch_disks", name, dict(files), freeze, effect=effect)

    def _switch(self, name: str, files: Mapping[str, str], freeze: bool) -> None:
        live = self._live(name)
        if freeze and name not in self.host.guests:
            raise HostRefused("Guest agent is not responding")
        there = {volume.path for volume in self.host.volumes.values()}
        if absent := [path for path in files.values() if path not in there]:
            raise HostRefused(f"missing existing file: {absent[0]}")
        self.host.live_by_name[name] = with_files(live, files)

    def define_filter(self, name: str, xml: str) -> None:
        self.host.call("define_filter", name, effect=lambda: None)

    def drop_filter(self, name: str) -> None:
        self.host.call("drop_filter", name, effect=lambda: None)

    def attach_disk(self, name: str, xml: str) -> None:
        self.host.call("attach_disk", self._named(name), effect=lambda: None)

    def detach_disk(self, name: str, disk: str) -> None:
        self.host.call("detach_disk", self._named(name), disk, effect=lambda: None)

    def grow_disk(self, name: str, disk: str, capacity_bytes: int) -> None:
        name = self._named(name)
        self.host.call("grow_disk", name, disk, capacity_bytes, effect=lambda: None)

    def disk_bytes(self, name: str, disk: str) -> int:
        return int(self.host.call("disk_bytes", self._named(name), disk, effect=lambda: 0) or 0)

    def pull_disk(self, name: str, disk: str, below: str) -> None:
        name = self._named(name)
        effect = partial(self._pull, name, disk, below)
        self.host.call("pull_disk", name, disk, below, effect=effect)

    def _pull(self, name: str, disk: str, below: str) -> None:
        files = {each.target: each.path for each in domainxml.disks(self._live(name))}
        self.host.lay_over(files[disk], below)

    def pull_progress(self, name: str, disk: str) -> MoveProgress | None:
        self.host.call("pull_progress", self._named(name), disk, effect=lambda: None)
        return None

    def cancel_pull(self, name: str, disk: str) -> None:
        self.host.call("cancel_pull", self._named(name), disk, effect=lambda: None)

    def checkpoints(self, name: str) -> frozenset[str]:
        self.host.call("checkpoints", self._named(name), effect=lambda: None)
        return frozenset()

    def forget_checkpoint(self, name: str, checkpoint: str) -> None:
        self.host.call("forget_checkpoint", self._named(name), checkpoint, effect=lambda: None)

    def begin_backup(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        freeze: bool,
        checkpoint: str = "",
        since: str = "",
    ) -> None:
        name = self._named(name)
        effect = partial(self._back_up, name, files)
        self.host.call("begin_backup", name, dict(files), freeze, effect=effect)

    def _back_up(self, name: str, files: Mapping[str, str]) -> None:
        self._live(name)
        there = {volume.path for volume in self.host.volumes.values()}
        if absent := [path for path in files.values() if path not in there]:
            raise HostRefused(f"missing existing file: {absent[0]}")

    def backup_progress(self, name: str) -> MoveProgress | None:
        self.host.call("backup_progress", self._named(name), effect=lambda: None)
        return None

    def cancel_backup(self, name: str, files: Mapping[str, str]) -> None:
        self.host.call("cancel_backup", self._named(name), effect=lambda: None)

    def thaw(self, name: str) -> None:
        self.host.call("thaw", self._named(name), effect=lambda: None)

    def _named(self, key: str) -> str:
        there = self.host.domains_by_name.items()
        return next((name for name, each in there if each.uuid == key), key)

    def _live(self, name: str) -> str:
        if self._known(name).state is DomainState.SHUTOFF:
            raise HostRefused(f"domain {name} is off")
        return self.host.live_by_name.get(name) or self.host.xml_by_name[name]

    def _resume(self, name: str) -> None:
        if self._known(name).state is DomainState.SHUTOFF:
            raise HostRefused(f"domain {name} is off")
        self._change(name, state=DomainState.RUNNING)

    def _migrate(self, move: LiveMove, target: Host) -> None:
        """Phase by phase; ``on_phase`` may raise after any of them, as a client that dies does."""
        peer = target.domains
        assert isinstance(peer, FakeDomains)
        if self._known(move.name).state is not DomainState.RUNNING:
            raise HostRefused(f"{move.name} is not running")
        self.host.on_phase("begin")
        peer._receive(move)
        self.host.on_phase("prepare")
        self._change(move.name, state=DomainState.PAUSED)
        self.host.on_phase("perform")
        peer._define(move.persistent_xml)
        peer._change(move.name, state=DomainState.RUNNING, persistent=True)
        self.host.on_phase("finish")
        self._change(move.name, state=DomainState.SHUTOFF)

    def _receive(self, move: LiveMove) -> None:
        """What libvirt and QEMU on the target do with the XML they are sent."""
        facts = domainxml.parse(move.live_xml)
        if move.name in self.host.domains_by_name:
            raise HostRefused(f"domain {move.name} exists")
        for device in facts.devices:
            if device in self.host.received:
                raise HostRefused(f"{device}: EBADF, it took part in a move before")
        self.host.received |= set(facts.devices)
        self._check(move.live_xml)
        receiver = replace(facts, state=DomainState.PAUSED, persistent=False)
        self.host.domains_by_name[move.name] = receiver
        self.host.xml_by_name[move.name] = move.live_xml

    def _define(self, xml: str) -> str:
        facts = domainxml.parse(xml)
        before = self.host.domains_by_name.get(facts.name)
        if before is not None:
            running = before.state is not DomainState.SHUTOFF
            devices = before.devices if running else facts.devices
            facts = replace(facts, state=before.state, autostart=before.autostart, devices=devices)
        self.host.domains_by_name[facts.name] = facts
        self.host.xml_by_name[facts.name] = xml
        return xml

    def _start(self, name: str) -> None:
        self._known(name)
        self._check(self.host.xml_by_name[name])
        self._change(name, state=DomainState.RUNNING)
        self.host.live_by_name[name] = self.host.xml_by_name[name]

    def _check(self, xml: str) -> None:
        for device in domainxml.parse(xml).devices:
            if device not in self.host.mdevs and self.host.drivers.get(device) != "vfio-pci":
                raise HostRefused(f"device {device} is not there")
        for path in _disks(xml):
            if path not in {volume.path for volume in self.host.volumes.values()}:
                raise HostRefused(f"cannot open {path}")

    def _off(self, name: str) -> None:
        self.host.live_by_name.pop(name, None)
        if self._known(name).persistent:
            self._change(name, state=DomainState.SHUTOFF)
        else:
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.host.domains_by_name.pop(name, None)
        self.host.xml_by_name.pop(name, None)
        self.host.live_by_name.pop(name, None)

    def _known(self, name: str) -> DomainFacts:
        if name not in self.host.domains_by_name:
            raise NotFound(f"there is no domain {name}")
        return self.host.domains_by_name[name]

    def _change(self, name: str, **changes: object) -> None:
        self.host.domains_by_name[name] = replace(self._known(name), **changes)  # type: ignore[arg-type]


def _disks(xml: str) -> tuple[str, ...]:
    found = untrusted(xml, "domain").iterfind("devices/disk/source")
    return tuple(str(each.get("file")) for each in found)


@dataclass
class FakeStorage:
    """libvirt's storage of the host."""

    host: FakeHost

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        found = self.host.probe().pools
        return tuple(each for each in found if only is None or each.name in only)

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        effect = self.host.volumes.get
        found = self.host.call("volume_look", volume, effect=lambda: effect((pool, volume)))
        return found if isinstance(found, VolumeFacts) else None

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        found = self.host.call("volume_create", pool, xml, effect=lambda: self._create(pool, xml))
        assert isinstance(found, VolumeFacts)
        return found

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        effect = self.host.uploads.update
        self.host.call("upload", volume, effect=lambda: effect({volume: data}))

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        found = self.host.call("volume_read", volume, effect=lambda: self._read(pool, volume))
        assert isinstance(found, bytes)
        return found[:most_bytes]

    def _read(self, pool: str, volume: str) -> bytes:
        self._known(pool, volume)
        return self.host.uploads.get(volume, b"")

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        return tuple(each for each in self.host.volumes.values() if each.pool == pool)

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        def effect() -> None:
            data = b"".join(bytes(each) if isinstance(each, int) else each for each in pieces)
            assert len(data) == length == self._known(pool, volume).capacity_bytes
            self.host.uploads[volume] = data

        self.host.call("fill", volume, effect=effect)

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        def effect() -> None:
            known = self._known(pool, volume)
            size = max(known.capacity_bytes, capacity_bytes)
            self.host.volumes[pool, volume] = replace(known, capacity_bytes=size)

        self.host.call("volume_grow", volume, effect=effect)

    def delete(self, pool: str, volume: str) -> None:
        self.host.call("volume_delete", volume, effect=lambda: self._delete(pool, volume))

    def xml(self, pool: str, volume: str) -> str:
        return str(self.host.call("volume_xml", volume, effect=lambda: self._xml(pool, volume)))

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        effect = partial(self._copy, pool, volume, target, seen)
        self.host.call("copy_to", pool, volume, target.name, effect=effect)

    def _copy(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        there = target.storage
        assert isinstance(there, FakeStorage)
        size = self._known(pool, volume).capacity_bytes
        there._known(pool, volume)
        seen(size // 2)
        there.host.uploads.pop(volume, None)
        self.host.on_phase("copy")
        if volume in self.host.uploads:
            there.host.uploads[volume] = self.host.uploads[volume]
        seen(size)

    def _xml(self, pool: str, volume: str) -> str:
        facts = self._known(pool, volume)
        plan = VolumePlan(
            pool=pool, name=volume, capacity_bytes=facts.capacity_bytes, format=facts.format
        )
        return domainxml.volume(plan)

    def _known(self, pool: str, volume: str) -> VolumeFacts:
        if (pool, volume) not in self.host.volumes:
            raise NotFound(f"there is no volume {volume} in storage pool {pool}")
        return self.host.volumes[pool, volume]

    def _create(self, pool: str, xml: str) -> VolumeFacts:
        root = untrusted(xml, "volume")
        name, capacity = root.findtext("name") or "", int(root.findtext("capacity") or 0)
        if (pool, name) in self.host.volumes:
            raise Conflict(f"volume {name} exists")
        kind = root.find("target/format")
        facts = VolumeFacts(
            pool=pool,
            name=name,
            path=f"/pools/{pool}/{name}",
            capacity_bytes=capacity,
            format=str(kind.get("type")) if kind is not None else "",
            backing_path=root.findtext("backingStore/path"),
        )
        self.host.volumes[pool, name] = facts
        return facts

    def _delete(self, pool: str, volume: str) -> None:
        self.host.volumes.pop((pool, volume), None)
        self.host.uploads.pop(volume, None)
