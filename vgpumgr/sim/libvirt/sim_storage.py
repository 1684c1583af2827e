"""The storage of one simulated host: libvirt's test driver, with files that can be read."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection
from dataclasses import replace

from lxml import etree

from vgpumgr import domainxml, virt
from vgpumgr.domainxml.storage_xml import pool_place
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.helper.facts import image_header
from vgpumgr.model.domain import VolumeFacts, VolumePlan
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import StoragePool
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.libvirt.driver_node import pool_xml
from vgpumgr.sim.libvirt.volume_files import Shelf, VolumeFiles
from vgpumgr.sim.machine.durable_texts import Durable

IMAGE_BYTES = 10 << 30

_CEPH = "rbd"
_SEEDED = "images made"
POOL_BYTES = 16 << 40
"""What a pool of a simulated host holds."""


class SimStorage(VolumeFiles):
    """Fulfils ``ports.Storage``. Volumes, and what was uploaded to them, survive a power cut.

    ``libvirt`` gives the connection; what is only read comes from our own records.
    """

    def __init__(
        self,
        host: SimHost,
        durable: Durable,
        shared: Shelf,
        libvirt: Callable[[], virt.Libvirt],
    ) -> None:
        super().__init__(host, durable, shared)
        self._durable = durable
        self._libvirt = libvirt
        self._seed()

    def replay(self, libvirt: virt.Libvirt) -> None:
        """Make all volumes known to a fresh connection."""
        for shelf in (self._own, self._shared):
            for facts in shelf.all():
                if facts.pool in self._host.pools and shelf is self._shelf(facts.pool):
                    libvirt.storage.create(facts.pool, shelf.xml(facts))

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        """Every storage pool, or those of these names."""
        return tuple(map(self._shown, self._libvirt().storage.pools(only)))

    def _shown(self, pool: StoragePool) -> StoragePool:
        """Larger than those of libvirt's test driver, and of the kind that the host has it as."""
        used = pool.capacity_bytes - pool.available_bytes
        place = pool_place(pool_xml(self._host, pool.name))
        return replace(
            pool,
            kind=place.kind,
            path=place.path,
            source=place.source,
            capacity_bytes=POOL_BYTES,
            available_bytes=POOL_BYTES - used,
        )

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        """Create a volume; a backing file that is not there is refused, as by qemu-img. libvirt's
        test driver copies within a pool alone.
        """
        xml = self._with_backing(pool, xml)
        shelf, here = self._shelf(pool), (from_pool or pool) == pool
        source = self._require(from_pool or pool, copy_from) if copy_from else None
        if source is not None and here:
            self._introduce(source)
        facts = self._libvirt().storage.create(pool, xml, copy_from=copy_from if here else None)
        if source is not None and facts.capacity_bytes < (size := self._disk_bytes(source)):
            facts = replace(facts, capacity_bytes=size)
        shelf.keep(facts, xml)
        if source is not None:
            self._copy(source, facts)
            if self._host.pool_kind(pool) == _CEPH:
                shelf.put_over(facts, source.name)
                facts = replace(facts, capacity_bytes=source.capacity_bytes)
                shelf.keep(facts, xml)
        return facts

    def take(self, plan: VolumePlan) -> VolumeFacts:
        """Know a volume that was made without libvirt, with what its source has."""
        raw = replace(plan, mode="fresh")
        facts = self.create(plan.pool, domainxml.volume(raw))
        if plan.source:
            self._copy(self._require(plan.pool, plan.source), facts)
        return facts

    def stand_alone(self, pool: str, volume: str) -> None:
        """Have a clone be one no more."""
        self._shelf(pool).put_over(self._require(pool, volume), "")

    def parent(self, pool: str, volume: str) -> str:
        """What a volume of Ceph's is a clone of; empty for nothing. NotFound for no volume."""
        return self._shelf(pool).parent(self._require(pool, volume))

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Keep ``data`` as the volume's first bytes."""
        self._refuse_ceph(pool, "uploading")
        self._require(pool, volume)
        self._write(pool, volume, data)

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        """The volume's file, cut off."""
        path, found = self._require(pool, volume).path, b""
        for piece in self.pieces(path):
            found += piece
            if len(found) >= most_bytes:
                break
        return found[:most_bytes]

    def fill(self, pool: str, volume: str, length: int, data: bytes) -> None:
        """Keep a raw volume's whole file: ``data``, then zeros up to its capacity."""
        self._refuse_ceph(pool, "uploading")
        facts = self._require(pool, volume)
        if facts.capacity_bytes != length:
            why = f"it has {facts.capacity_bytes} bytes, {length} were sent"
            raise HostRefused(f"cannot write volume {volume}", why=why)
        self._write(pool, volume, data)

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make it larger in our own records: libvirt's test driver resizes no volume."""
        facts = self._require(pool, volume)
        if facts.capacity_bytes >= capacity_bytes:
            return
        if self._host.pool_kind(pool) == "logical":
            why = "storage pool does not support changing of volume capacity"
            raise HostRefused(f"cannot grow volume {volume}", why=why)
        self.extend(pool, volume, capacity_bytes)

    def extend(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make it larger by whatever means."""
        facts = self._require(pool, volume)
        shelf = self._shelf(pool)
        made = untrusted(shelf.xml(facts), "volume")
        capacity = made.find("capacity")
        assert capacity is not None, "a volume was made with one"
        capacity.set("unit", "bytes")
        capacity.text = str(capacity_bytes)
        grown = replace(facts, capacity_bytes=capacity_bytes)
        shelf.keep(grown, etree.tostring(made, encoding="unicode"))

    def grow_file(self, path: str, capacity_bytes: int) -> str:
        """Make what a running QEMU has open larger; what QEMU would say where it cannot."""
        facts = self._at(path)
        if facts.capacity_bytes >= capacity_bytes:
            return ""
        if self._host.pool_kind(facts.pool) == "logical":
            doing = "internal error: unable to execute QEMU command 'block_resize'"
            return f"{doing}: Cannot grow device files"
        self.extend(facts.pool, facts.name, capacity_bytes)
        return ""

    def capacity_of(self, path: str) -> int:
        """How large the volume at a path is."""
        return self._at(path).capacity_bytes

    def lay_over(self, path: str, below: str) -> None:
        """Have a volume read as before over another one, or nothing: it takes what it lacks."""
        facts, before = self._at(path), self.content(path).data
        shelf = self._shelf(facts.pool)
        made = untrusted(shelf.xml(facts), "volume")
        backing = made.find("backingStore")
        if (path_below := made.find("backingStore/path")) is not None and below:
            path_below.text = below
        elif backing is not None:
            made.remove(backing)
        laid = replace(facts, backing_path=below or None)
        shelf.keep(laid, etree.tostring(made, encoding="unicode"))
        if self.content(path).data != before:
            self.guest_writes(path, before)

    def delete(self, pool: str, volume: str) -> None:
        """Delete; an absent volume is no error."""
        facts = self.look(pool, volume)
        if facts is None:
            return
        if clones := self._shelf(pool).clones(facts):
            why = f"failed to remove volume: {', '.join(clones)} are clones of it"
            raise HostRefused(f"cannot delete volume {volume}", why=why, errno_name="EBUSY")
        self._libvirt().storage.delete(pool, volume)
        self._shelf(pool).drop(facts)

    def _refuse_ceph(self, pool: str, doing: str) -> None:
        if self._host.pool_kind(pool) == _CEPH:
            why = f"storage pool does not support volume {doing}"
            raise HostRefused(f"cannot write to storage pool {pool}", why=why)

    def _copy(self, source: VolumeFacts, copy: VolumeFacts) -> None:
        """As qemu-img convert does it: what lies below the source is in the copy itself."""
        shelf, alike = self._shelf(source.pool), source.format == copy.format
        if alike and (data := shelf.data(source)):
            self._shelf(copy.pool).write(copy, data)
        if not alike or shelf.guest(source) or source.backing_path:
            self.guest_writes(copy.path, self.content(source.path).data)

    def _disk_bytes(self, source: VolumeFacts) -> int:
        """The size of the disk in a volume's file: a copy is at least as large, as in libvirt."""
        try:
            read = image_header.inspect(*self.head(source.path, image_header.HEAD_BYTES))
        except ValueError:
            return source.capacity_bytes
        return int(str(read["virtual_bytes"]))

    def _introduce(self, facts: VolumeFacts) -> None:
        """The driver does not know what another host has put on shared storage."""
        libvirt = self._libvirt()
        if libvirt.storage.look(facts.pool, facts.name) is None:
            libvirt.storage.create(facts.pool, self._shelf(facts.pool).xml(facts))

    def _seed(self) -> None:
        """The images that were there before anybody came: once in the host's life."""
        if _SEEDED in self._durable or "default" not in self._host.pools:
            return
        for name in self._host.images:
            plan = VolumePlan(pool="default", name=name, capacity_bytes=IMAGE_BYTES, format="qcow2")
            facts = VolumeFacts(
                pool=plan.pool,
                name=name,
                path=self.path_of(plan.pool, name),
                capacity_bytes=IMAGE_BYTES,
                format=plan.format,
            )
            if self._shelf(plan.pool).at(facts.path) is None:
                self._shelf(plan.pool).keep(facts, domainxml.volume(plan))
        self._durable[_SEEDED] = "yes"

    def _with_backing(self, pool: str, xml: str) -> str:
        """What is asked for, with a backing file that is there, by its whole path: one without a
        folder is in the pool's own.
        """
        doing = f"cannot create a volume in storage pool {pool}"
        try:
            volume = untrusted(xml, "volume")
        except ValueError as error:
            raise HostRefused(doing, why=str(error)) from error
        backing = volume.find("backingStore/path")
        if backing is None or not backing.text:
            return xml
        folder = "" if "/" in backing.text else pool_place(pool_xml(self._host, pool)).path
        path = backing.text = posixpath.join(folder, backing.text)
        if not self.exists(path):
            why = f"internal error: qemu-img: Could not open '{path}': No such file or directory"
            raise HostRefused(doing, why=why, errno_name="ENOENT")
        return etree.tostring(volume, encoding="unicode")
