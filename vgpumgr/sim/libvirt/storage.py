"""The storage of one simulated host: libvirt's test driver, with files that can be read."""

from __future__ import annotations

import base64
import errno
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr import domainxml, virt
from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.codec import from_plain
from vgpumgr.model.domain import VolumeFacts, VolumePlan
from vgpumgr.model.errors import HostRefused, NotFound
from vgpumgr.model.host import StoragePool
from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.durable import Durable
from vgpumgr.sim.libvirt import image
from vgpumgr.sim.libvirt.node import pool_path
from vgpumgr.sim.libvirt.shelf import Shelf
from vgpumgr.sim.linux.tree import refusal

IMAGE_BYTES = 10 << 30
_PIECE_BYTES = 1 << 20

_SEEDED = "images made"
# What a pool is that several hosts see.
_SHARED_KIND = "netfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file: zeros after ``data``, up to ``length``."""

    format: str
    length: int
    data: bytes


class SimStorage:
    """Fulfils ``ports.Storage``. Volumes, and what was uploaded to them, survive a power cut.

    ``shared`` holds the pools that other hosts see too. ``libvirt`` gives the connection; what is
    only read comes from our own records.
    """

    def __init__(
        self,
        host: SimHost,
        durable: Durable,
        shared: Shelf,
        libvirt: Callable[[], virt.Libvirt],
    ) -> None:
        self._host = host
        self._durable = durable
        self._own = Shelf(durable)
        self._shared = shared
        self._libvirt = libvirt
        self._seed()

    def replay(self, libvirt: virt.Libvirt) -> None:
        """Make all volumes known to a fresh connection."""
        for shelf in (self._own, self._shared):
            for facts in shelf.all():
                if facts.pool in self._host.pools and shelf is self._shelf(facts.pool):
                    libvirt.storage.create(facts.pool, shelf.xml(facts))

    def pools(self) -> tuple[StoragePool, ...]:
        """Every storage pool."""
        return tuple(
            replace(pool, kind=_SHARED_KIND) if pool.name in self._host.shared_pools else pool
            for pool in self._libvirt().storage.pools()
        )

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None; NotFound when there is no such pool."""
        if pool not in self._host.pools:
            raise NotFound(f"there is no storage pool {pool}", next="virsh pool-list --all")
        return self._shelf(pool).at(f"{pool_path(pool)}/{volume}")

    def create(self, pool: str, xml: str, *, copy_from: str | None = None) -> VolumeFacts:
        """Create a volume; a backing file that is not there is refused, as by qemu-img."""
        self._require_backing(pool, xml)
        shelf = self._shelf(pool)
        source = self._require(pool, copy_from) if copy_from else None
        if source is not None:
            self._introduce(source)
        facts = self._libvirt().storage.create(pool, xml, copy_from=copy_from)
        shelf.keep(facts, xml)
        if source is not None and (data := shelf.data(source)):
            shelf.write(facts, data)
        return facts

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Keep ``data`` as the volume's first bytes."""
        self._require(pool, volume)
        self._write(pool, volume, data)

    def delete(self, pool: str, volume: str) -> None:
        """Delete; an absent volume is no error."""
        facts = self.look(pool, volume)
        if facts is None:
            return
        self._libvirt().storage.delete(pool, volume)
        self._shelf(pool).drop(facts)

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML as it was made."""
        return self._shelf(pool).xml(self._require(pool, volume))

    def download(self, pool: str, volume: str) -> Content:
        """The whole file, without the zeros at its end."""
        facts = self._require(pool, volume)
        head, length = self.head(facts.path, image.EMPTY_QCOW2_BYTES)
        data = max(head, self._data(facts), key=len)
        return Content(format=facts.format, length=length, data=data.rstrip(b"\0"))

    def receive(self, pool: str, volume: str, content: dict[str, Any]) -> None:
        """Another host's file in place of this one."""
        facts, found = self._require(pool, volume), from_plain(Content, content)
        if facts.format != found.format:
            raise HostRefused(f"volume {volume} is {facts.format}, not {found.format}")
        if facts.format == "raw":
            grown = replace(facts, capacity_bytes=found.length)
            self._shelf(pool).keep(grown, self.xml(pool, volume))
        self._write(pool, volume, found.data)

    def content(self, path: str) -> Content:
        """What the guest sees on a disk that lies there, as far as it is known."""
        facts = self._at(path)
        return Content(format="raw", length=facts.capacity_bytes, data=self._data(facts))

    def mirror(self, path: str, content: Content) -> None:
        """A guest's disk, copied while it runs: of the same size, in whatever format."""
        facts = self._at(path)
        if facts.capacity_bytes != content.length:
            why = "internal error: unable to execute QEMU command 'blockdev-mirror': "
            raise HostRefused(
                f"cannot copy a disk to {path}",
                why=f"{why}Source and target image have different sizes",
            )
        self._write(facts.pool, facts.name, content.data)

    def exists(self, path: str) -> bool:
        """Is there a volume at that path?"""
        return self._find(path) is not None

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """A volume's first bytes and its size; FileNotFoundError where there is none."""
        facts = self._at(path)
        return image.head(facts, self._data(facts), limit)

    def pieces(self, path: str) -> Iterator[bytes]:
        """All of a volume's file; FileNotFoundError where there is none."""
        head, length = self.head(path, image.EMPTY_QCOW2_BYTES)
        data = max(head, self._data(self._at(path)), key=len)
        yield data
        for start in range(len(data), length, _PIECE_BYTES):
            yield bytes(min(_PIECE_BYTES, length - start))

    def _require(self, pool: str, volume: str) -> VolumeFacts:
        facts = self.look(pool, volume)
        if facts is None:
            raise NotFound(
                f"there is no volume {volume} in storage pool {pool}",
                next=f"virsh vol-list {pool}",
            )
        return facts

    def _shelf(self, pool: str) -> Shelf:
        return self._shared if pool in self._host.shared_pools else self._own

    def _find(self, path: str) -> VolumeFacts | None:
        found = self._own.at(path) or self._shared.at(path)
        return found if found and found.pool in self._host.pools else None

    def _at(self, path: str) -> VolumeFacts:
        facts = self._find(path)
        if facts is None:
            raise refusal(errno.ENOENT, path)
        return facts

    def _introduce(self, facts: VolumeFacts) -> None:
        """The driver does not know what another host has put on shared storage."""
        libvirt = self._libvirt()
        if libvirt.storage.look(facts.pool, facts.name) is None:
            libvirt.storage.create(facts.pool, self._shelf(facts.pool).xml(facts))

    def _data(self, facts: VolumeFacts) -> bytes:
        packed = self._shelf(facts.pool).data(facts)
        return zlib.decompress(base64.b64decode(packed)) if packed else b""

    def _write(self, pool: str, volume: str, data: bytes) -> None:
        packed = base64.b64encode(zlib.compress(data, 1)).decode()
        self._shelf(pool).write(self._require(pool, volume), packed)

    def _seed(self) -> None:
        """The images that were there before anybody came: once in the host's life."""
        if _SEEDED in self._durable or "default" not in self._host.pools:
            return
        for name in self._host.images:
            plan = VolumePlan(pool="default", name=name, capacity_bytes=IMAGE_BYTES, format="qcow2")
            facts = VolumeFacts(
                pool=plan.pool,
                name=name,
                path=f"{pool_path(plan.pool)}/{name}",
                capacity_bytes=IMAGE_BYTES,
                format=plan.format,
            )
            if self._shelf(plan.pool).at(facts.path) is None:
                self._shelf(plan.pool).keep(facts, domainxml.volume(plan))
        self._durable[_SEEDED] = "yes"

    def _require_backing(self, pool: str, xml: str) -> None:
        doing = f"cannot create a volume in storage pool {pool}"
        try:
            backing = untrusted(xml, "volume").findtext("backingStore/path")
        except ValueError as error:
            raise HostRefused(doing, why=str(error)) from error
        if backing and not self.exists(backing):
            why = f"internal error: qemu-img: Could not open '{backing}': No such file or directory"
            raise HostRefused(doing, why=why, errno_name="ENOENT")
