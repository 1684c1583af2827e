"""The files of volumes on own disks or shared storage, as QEMU and the helper read them."""

from __future__ import annotations

import base64
import errno
import json
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import HostRefused, NotFound
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.libvirt.driver_node import pool_path
from vgpumgr.sim.linux.file_tree import refusal
from vgpumgr.sim.machine.durable_texts import Durable

_VOLUME, _DATA, _GUEST, _PARENT = "volume:", "data:", "guest:", "parent:"
# Each volume that comes or goes gets the next number, in the place of a time.
_CHANGES = count(time.time_ns())


class Shelf:
    """Volumes by path, each with the XML it was made from, and packed data of those written to:
    of the file itself, or by the guest whose disk it is.

    ``written`` says by pool when a volume came or went last.
    """

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self.written: dict[str, int] = {}
        self._by_path: dict[str, VolumeFacts] = {}
        for text in durable.under(_VOLUME).values():
            facts = from_plain(VolumeFacts, json.loads(text)["facts"])
            self._by_path[facts.path] = facts

    def at(self, path: str) -> VolumeFacts | None:
        """The volume at a path, or None."""
        return self._by_path.get(path)

    def all(self) -> tuple[VolumeFacts, ...]:
        """Every volume."""
        return tuple(self._by_path.values())

    def xml(self, facts: VolumeFacts) -> str:
        """What it was made from."""
        return str(json.loads(self._durable[_VOLUME + _key(facts)])["xml"])

    def keep(self, facts: VolumeFacts, xml: str) -> None:
        """Keep a volume, or what it has become."""
        if facts.path not in self._by_path:
            self.written[facts.pool] = next(_CHANGES)
        self._by_path[facts.path] = facts
        self._durable[_VOLUME + _key(facts)] = json.dumps({"facts": to_plain(facts), "xml": xml})

    def drop(self, facts: VolumeFacts) -> None:
        """Forget a volume with its data."""
        self.written[facts.pool] = next(_CHANGES)
        del self._by_path[facts.path]
        del self._durable[_VOLUME + _key(facts)]
        self._durable.pop(_DATA + _key(facts), None)
        self._durable.pop(_GUEST + _key(facts), None)
        self._durable.pop(_PARENT + _key(facts), None)

    def parent(self, facts: VolumeFacts) -> str:
        """The name of the volume of Ceph's that it is a clone of; empty for none."""
        return self._durable.get(_PARENT + _key(facts), "")

    def put_over(self, facts: VolumeFacts, parent: str) -> None:
        """Keep what it is a clone of; empty for nothing any more."""
        self._durable[_PARENT + _key(facts)] = parent

    def clones(self, facts: VolumeFacts) -> tuple[str, ...]:
        """The volumes that are clones of it."""
        pool = [each for each in self.all() if each.pool == facts.pool]
        return tuple(each.name for each in pool if self.parent(each) == facts.name)

    def data(self, facts: VolumeFacts) -> str:
        """Its packed data; empty where nothing was written."""
        return self._durable.get(_DATA + _key(facts), "")

    def write(self, facts: VolumeFacts, packed: str) -> None:
        """Keep packed data as its first bytes."""
        self._durable[_DATA + _key(facts)] = packed

    def guest(self, facts: VolumeFacts) -> str:
        """What a guest wrote there, packed; empty where none did."""
        return self._durable.get(_GUEST + _key(facts), "")

    def write_guest(self, facts: VolumeFacts, packed: str) -> None:
        """Keep packed data as the first bytes of the guest's disk."""
        self._durable[_GUEST + _key(facts)] = packed


def _key(facts: VolumeFacts) -> str:
    return f"{facts.pool}/{facts.name}"


_CLUSTER_BITS = 16
_HEADER_BYTES = 104
_BACKING_FORMAT = 0xE2792ACA
EMPTY_QCOW2_BYTES = 196_608


def image_head(volume: VolumeFacts, uploaded: bytes, limit: int) -> tuple[bytes, int]:
    """The volume's first ``limit`` bytes and its size; what was uploaded is where it was put."""
    if volume.format == "qcow2":
        content, size = _qcow2(volume), EMPTY_QCOW2_BYTES
    else:
        content, size = b"", volume.capacity_bytes
    size = max(size, len(uploaded))
    content = uploaded + content[len(uploaded) :]
    return content[:limit].ljust(min(limit, size), b"\0"), size


def _qcow2(volume: VolumeFacts) -> bytes:
    """A version 3 header (QEMU docs/interop/qcow2.txt)."""
    backing = (volume.backing_path or "").encode()
    extension = struct.pack(">II8s", _BACKING_FORMAT, 5, b"qcow2") if backing else b""
    extensions = extension + struct.pack(">II", 0, 0)
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        b"QFI\xfb",
        3,
        _HEADER_BYTES + len(extensions) if backing else 0,
        len(backing),
        _CLUSTER_BITS,
        volume.capacity_bytes,
        0,  # not encrypted
        1,
        3 << _CLUSTER_BITS,
        1 << _CLUSTER_BITS,
        1,
        0,
        0,
        0,
        0,
        0,
        4,
        _HEADER_BYTES,
    )
    return header + extensions + backing


_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file: zeros after ``data``, up to ``length``. Of a qcow2 file ``data`` is what was uploaded
    over its header, ``guest`` what a guest wrote into it, ``backing`` what it is laid over.
    """

    format: str
    length: int
    data: bytes
    guest: bytes = b""
    backing: str | None = None


class VolumeFiles:
    """What lies in each volume survives a power cut. ``shared`` holds the pools that other hosts
    see too.
    """

    def __init__(self, host: SimHost, durable: Durable, shared: Shelf) -> None:
        self._host = host
        self._own = Shelf(durable)
        self._shared = shared

    def written(self, pool: str) -> int:
        """When a volume came or went last in a pool."""
        return self._shelf(pool).written.get(pool, 0)

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None; NotFound when there is no such pool."""
        self._require_pool(pool)
        return self._shelf(pool).at(self.path_of(pool, volume))

    def path_of(self, pool: str, volume: str) -> str:
        """Where a volume of that name lies, or would."""
        return f"{pool_path(pool, self._host.pool_kind(pool))}/{volume}"

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
        head, length = self.head(facts.path, EMPTY_QCOW2_BYTES)
        data = self._data(facts)
        if facts.format == "raw":
            data = max(head, data, key=len)
        return Content(
            format=facts.format,
            length=length,
            data=data.rstrip(b"\0"),
            guest=_unpacked(self._shelf(pool).guest(facts)),
            backing=facts.backing_path,
        )

    def receive(self, pool: str, volume: str, content: dict[str, Any]) -> None:
        """Take over the file of another host in place of this one."""
        facts, found = self._require(pool, volume), from_plain(Content, content)
        if facts.format != found.format:
            raise HostRefused(f"volume {volume} is {facts.format}, not {found.format}")
        if facts.format == "raw":
            grown = replace(facts, capacity_bytes=found.length)
            self._shelf(pool).keep(grown, self.xml(pool, volume))
        else:
            laid = replace(facts, backing_path=found.backing)
            self._shelf(pool).keep(laid, self.xml(pool, volume))
        self._write(pool, volume, found.data)
        self._shelf(pool).write_guest(facts, _packed(found.guest))

    def content(self, path: str) -> Content:
        """What the guest sees on a disk that lies there, as far as it is known."""
        facts = self._at(path)
        return Content(format="raw", length=facts.capacity_bytes, data=self._disk(facts))

    def guest_writes(self, path: str, data: bytes) -> None:
        """A guest writes to the beginning of the disk that lies there."""
        facts = self._at(path)
        packed = _packed(data + self._disk(facts)[len(data) :])
        shelf = self._shelf(facts.pool)
        write = shelf.write if facts.format == "raw" else shelf.write_guest
        write(facts, packed)

    def chain(self, path: str) -> Iterator[str]:
        """The file there, what it is laid over, and so on; also one that is not there."""
        following: str | None = path
        while following:
            yield following
            facts = self._find(following)
            following = facts.backing_path if facts else None

    def mirror(self, path: str, content: Content) -> None:
        """A guest's disk, copied while it runs: of the same size, in whatever format."""
        facts = self._at(path)
        if facts.capacity_bytes != content.length:
            why = "internal error: unable to execute QEMU command 'blockdev-mirror': "
            raise HostRefused(
                f"cannot copy a disk to {path}",
                why=f"{why}Source and target image have different sizes",
            )
        self.guest_writes(path, content.data)

    def exists(self, path: str) -> bool:
        """Is there a volume at that path?"""
        return self._find(path) is not None

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """A volume's first bytes and its size; FileNotFoundError where there is none."""
        facts = self._at(path)
        return image_head(facts, self._data(facts), limit)

    def pieces(self, path: str) -> Iterator[bytes]:
        """All of a volume's file; FileNotFoundError where there is none."""
        head, length = self.head(path, EMPTY_QCOW2_BYTES)
        data = max(head, self._data(self._at(path)), key=len)
        yield data
        yield _unpacked(self._shelf(self._at(path).pool).guest(self._at(path)))
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
        return self._shared if pool in self._host.seen_elsewhere else self._own

    def _find(self, path: str) -> VolumeFacts | None:
        found = self._own.at(path) or self._shared.at(path)
        return found if found and found.pool in self._host.pools else None

    def _at(self, path: str) -> VolumeFacts:
        facts = self._find(path)
        if facts is None:
            raise refusal(errno.ENOENT, path)
        return facts

    def _data(self, facts: VolumeFacts) -> bytes:
        return _unpacked(self._shelf(facts.pool).data(facts))

    def _disk(self, facts: VolumeFacts) -> bytes:
        """What the guest reads: its own writes, else a raw file's data, else what lies below."""
        shelf = self._shelf(facts.pool)
        if facts.format == "raw":
            return self._data(facts)
        if packed := shelf.guest(facts):
            return _unpacked(packed)
        below = self._find(facts.backing_path) if facts.backing_path else None
        return self._disk(below) if below else b""

    def _write(self, pool: str, volume: str, data: bytes) -> None:
        self._shelf(pool).write(self._require(pool, volume), _packed(data))


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode() if data else ""


def _unpacked(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed)) if packed else b""
