"""The files of the volumes of one simulated host, as QEMU and the helper read them."""

from __future__ import annotations

import base64
import errno
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr.model.codec import from_plain
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import HostRefused, NotFound
from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.durable import Durable
from vgpumgr.sim.libvirt import image
from vgpumgr.sim.libvirt.node import pool_path
from vgpumgr.sim.libvirt.shelf import Shelf
from vgpumgr.sim.linux.tree import refusal

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file: zeros after ``data``, up to ``length``."""

    format: str
    length: int
    data: bytes


class VolumeFiles:
    """What lies in each volume survives a power cut. ``shared`` holds the pools that other hosts
    see too.
    """

    def __init__(self, host: SimHost, durable: Durable, shared: Shelf) -> None:
        self._host = host
        self._own = Shelf(durable)
        self._shared = shared

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None; NotFound when there is no such pool."""
        self._require_pool(pool)
        return self._shelf(pool).at(f"{pool_path(pool)}/{volume}")

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        """Every volume of a pool, by name; NotFound when there is no such pool."""
        self._require_pool(pool)
        found = (each for each in self._shelf(pool).all() if each.pool == pool)
        return tuple(sorted(found, key=lambda facts: facts.name))

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

    def _require_pool(self, pool: str) -> None:
        if pool not in self._host.pools:
            raise NotFound(f"there is no storage pool {pool}", next="virsh pool-list --all")

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

    def _data(self, facts: VolumeFacts) -> bytes:
        packed = self._shelf(facts.pool).data(facts)
        return zlib.decompress(base64.b64decode(packed)) if packed else b""

    def _write(self, pool: str, volume: str, data: bytes) -> None:
        packed = base64.b64encode(zlib.compress(data, 1)).decode()
        self._shelf(pool).write(self._require(pool, volume), packed)
