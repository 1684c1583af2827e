"""Storage by intent (``model.ports.Storage``): pools, volumes, and streams of volumes' files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import libvirt

from vgpumgr.domainxml.storage_xml import pool_place, volume_format
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import HostRefused, NotFound, OutcomeUnknown
from vgpumgr.model.host import StoragePool
from vgpumgr.virt.libvirt_errors import calling, is_absent, is_unsupported

T = TypeVar("T")

CHUNK_BYTES = 256 * 1024

# What recvFlags answers at a hole, with VIR_STREAM_RECV_STOP_AT_HOLE.
_AT_HOLE = -3
_LENGTH = 2

# What libvirt makes of a volume for a clone goes with the volume; other kinds know no such flag.
# With a clone that still needs it, Ceph refuses.
_DELETE_FLAGS = {"rbd": libvirt.VIR_STORAGE_VOL_DELETE_WITH_SNAPSHOTS}

Volume = tuple[Any, Any]
"""The connection it belongs to, and libvirt's object."""
OnBytesCopied = Callable[[int], None]


def _understood(read: Callable[[str], T], xml: str, kind: str) -> T:
    try:
        return read(xml)
    except ValueError as error:
        raise OutcomeUnknown(f"a storage {kind} cannot be understood", why=str(error)) from error


class LibvirtStorage:
    """The storage of one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        """Every storage pool by name, inactive ones included; with ``only`` those of these names.

        libvirt's list waits for each pool, and so for one that hangs.
        """
        with calling(self._connection, "list storage pools"):
            if only is None:
                found = [_pool_facts(each) for each in self._connection.listAllStoragePools(0)]
            else:
                found = [_pool_facts(each) for each in self._named(only)]
        return tuple(sorted(found, key=lambda facts: facts.name))

    def _named(self, names: Collection[str]) -> Iterator[Any]:
        for name in names:
            try:
                yield self._connection.storagePoolLookupByName(name)
            except libvirt.libvirtError as error:
                if not is_absent(error):
                    raise

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None when the pool surely has none of that name.

        Raises NotFound when the pool does not exist, HostRefused when it is not active.
        """
        with calling(self._connection, f"look at volume {volume} of storage pool {pool}"):
            found = _find(self._pool(pool), volume)
            return None if found is None else _volume_facts(pool, found)

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        """Create a volume from XML; with ``copy_from`` its data comes from that volume."""
        with calling(self._connection, f"create a volume in storage pool {pool}", changes=True):
            home = self._pool(pool)
            if copy_from is None:
                made = home.createXML(xml, 0)
            else:
                there = from_pool or pool
                source = _require(self._pool(there), there, copy_from)
                made = home.createXMLFrom(xml, source, 0)
            return _volume_facts(pool, made)

    def allocation(self, pool: str, volume: str) -> int:
        """The bytes that a volume takes now, while it is being made as well; 0 where it is not
        there yet.
        """
        with calling(self._connection, f"look at volume {volume} of storage pool {pool}"):
            try:
                return int(self._pool(pool).storageVolLookupByName(volume).info()[2])
            except libvirt.libvirtError as error:
                if is_absent(error):
                    return 0
                raise

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        """The volume's file, cut off after ``most_bytes``."""
        with calling(self._connection, f"read volume {volume} of storage pool {pool}"):
            source = _require(self._pool(pool), pool, volume)
            length = min(most_bytes, _length(source))
            found = bytearray()
            with _stream(self._connection) as stream:
                source.download(stream, 0, length, 0)
                while piece := stream.recv(CHUNK_BYTES):
                    found += piece
            return bytes(found)

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write ``data`` at the volume's beginning."""
        doing = f"write volume {volume} of storage pool {pool}"
        with calling(self._connection, doing, changes=True):
            target = _require(self._pool(pool), pool, volume)
            with _stream(self._connection) as stream:
                target.upload(stream, 0, len(data), 0)
                for start in range(0, len(data), CHUNK_BYTES):
                    _send(stream, data[start : start + CHUNK_BYTES])

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        """Every volume of a pool as its files are now, by name."""
        with calling(self._connection, f"list the volumes of storage pool {pool}"):
            home = self._pool(pool)
            home.refresh(0)
            found = [_volume_facts(pool, each) for each in home.listAllVolumes(0)]
        return tuple(sorted(found, key=lambda facts: facts.name))

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write the whole file of a raw volume, piece by piece: data, or the length of a hole."""
        doing = f"write volume {volume} of storage pool {pool}"
        with calling(self._connection, doing, changes=True):
            target = _require(self._pool(pool), pool, volume)
            fill_file((self._connection, target), length, pieces)

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make a volume as large as that; HostRefused where it is not, though libvirt agreed."""
        doing = f"grow volume {volume} of storage pool {pool}"
        with calling(self._connection, doing, changes=True):
            found = _require(self._pool(pool), pool, volume)
            if found.info()[1] < capacity_bytes:
                found.resize(capacity_bytes, 0)
            if (now := found.info()[1]) < capacity_bytes:
                why = f"it has {now} bytes, {capacity_bytes} were asked for"
                raise HostRefused(f"{doing}: it did not grow", why=why)

    def delete(self, pool: str, volume: str) -> None:
        """Delete; an absent volume is no error."""
        doing = f"delete volume {volume} of storage pool {pool}"
        with calling(self._connection, doing, changes=True):
            home = self._pool(pool)
            found = _find(home, volume)
            if found is not None:
                place = _understood(pool_place, home.XMLDesc(0), "pool")
                found.delete(_DELETE_FLAGS.get(place.kind, 0))

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML; NotFound when there is none."""
        with calling(self._connection, f"read volume {volume} of storage pool {pool}"):
            return str(_require(self._pool(pool), pool, volume).XMLDesc(0))

    def copy_to(self, pool: str, volume: str, target: LibvirtStorage, seen: OnBytesCopied) -> None:
        """The file behind a volume into its namesake's on another connection's host.

        Formats are not compared: libvirt guesses them anew from what half a copy looks like.
        """
        doing = f"copy volume {volume} of storage pool {pool}"
        here, there = self._connection, target._connection
        with calling(here, doing, there, changes=True):
            source = _require(self._pool(pool), pool, volume)
            copy = _require(target._pool(pool), pool, volume)
            copy_file((here, source), (there, copy), seen)

    def _pool(self, name: str) -> Any:
        try:
            pool = self._connection.storagePoolLookupByName(name)
        except libvirt.libvirtError as error:
            if is_absent(error):
                raise NotFound(
                    f"there is no storage pool {name}", next="virsh pool-list --all"
                ) from (error)
            raise
        if not pool.isActive():
            raise HostRefused(f"storage pool {name} is not active", next=f"virsh pool-start {name}")
        return pool


def _find(pool: Any, name: str) -> Any:
    """The volume, looked for once more after a refresh: files may have come by other ways."""
    for refresh in (False, True):
        if refresh:
            pool.refresh(0)
        try:
            return pool.storageVolLookupByName(name)
        except libvirt.libvirtError as error:
            if not is_absent(error):
                raise
    return None


def _require(pool: Any, pool_name: str, name: str) -> Any:
    found = _find(pool, name)
    if found is None:
        raise NotFound(
            f"there is no volume {name} in storage pool {pool_name}",
            next=f"virsh vol-list {pool_name}",
        )
    return found


def _pool_facts(pool: Any) -> StoragePool:
    _, capacity, _, available = pool.info()
    place = _understood(pool_place, pool.XMLDesc(0), "pool")
    return StoragePool(
        name=pool.name(),
        kind=place.kind,
        path=place.path,
        capacity_bytes=capacity,
        available_bytes=free_bytes(capacity, available),
        active=bool(pool.isActive()),
        source=place.source,
    )


def free_bytes(capacity: int, available: int) -> int:
    """What is free of a pool, by libvirt's count of it.

    Between two reads of a pool libvirt takes off what new volumes may grow to, and adds what
    deleted ones had grown to, in 64 bits without a sign: that comes to less than nothing (close to
    2^64, in small pools of Ceph's), or to a little more than the pool has.
    """
    return 0 if available >= 1 << 63 else min(available, capacity)


def _volume_facts(pool: str, volume: Any) -> VolumeFacts:
    format_name, backing = _understood(volume_format, volume.XMLDesc(0), "volume")
    return VolumeFacts(
        pool=pool,
        name=volume.name(),
        path=volume.path(),
        capacity_bytes=volume.info()[1],
        format=format_name,
        backing_path=backing,
    )


@contextmanager
def _stream(connection: Any) -> Iterator[Any]:
    """A stream that blocks; finished at the end, aborted when the body raised."""
    opened = connection.newStream(0)
    try:
        yield opened
    except BaseException:
        with suppress(libvirt.libvirtError):  # it may not have begun
            opened.abort()
        raise
    opened.finish()


def _send(opened: Any, data: bytes) -> None:
    """All bytes into a stream."""
    while data:
        data = data[opened.send(data) :]


def copy_file(source: Volume, target: Volume, seen: OnBytesCopied) -> None:
    """Copy the whole file, piece by piece and without its holes.

    ``seen`` hears how many of its bytes are done, holes included.
    What it raises ends the copy. HostRefused when the target's file is not as long as the
    source's afterwards.
    """
    # libvirt leaves what lies under a hole as it is: where the target may have data, zeros go.
    _, _, allocated = target[1].info()
    written = _length(target[1]) if allocated else 0
    with _stream(source[0]) as incoming, _stream(target[0]) as outgoing:
        sparse = _open(source[1], target[1], incoming, outgoing)
        done = 0
        for piece in _pieces(incoming, sparse=sparse):
            done += _put(outgoing, piece, done, written)
            seen(done)
    sent, there = _length(source[1]), _length(target[1])
    if sent != there:
        raise HostRefused(
            "the copy of a volume is not as long as the volume",
            why=f"{sent} bytes were read, the file on the target has {there}",
        )


def fill_file(target: Volume, length: int, pieces: Iterable[bytes | int]) -> None:
    """The whole file of a volume that has no data yet: pieces are data, or lengths of holes."""
    connection, volume = target
    with _stream(connection) as outgoing:
        written, done = 0, 0
        try:
            volume.upload(outgoing, 0, 0, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
        except libvirt.libvirtError as error:
            if not is_unsupported(error):
                raise
            volume.upload(outgoing, 0, length, 0)
            written = length  # it knows no holes: zeros go
        for piece in pieces:
            done += _put(outgoing, piece, done, written)


def _open(source: Any, target: Any, incoming: Any, outgoing: Any) -> bool:
    """Both ends as sparse streams, or both as plain ones where either cannot (libvirt 3.4)."""
    try:
        source.download(incoming, 0, 0, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
    except libvirt.libvirtError as error:
        if not is_unsupported(error):
            raise
        source.download(incoming, 0, 0, 0)
        target.upload(outgoing, 0, 0, 0)
        return False
    target.upload(outgoing, 0, 0, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
    return True


def _pieces(incoming: Any, *, sparse: bool) -> Iterator[bytes | int]:
    """Data, or the length of a hole, until the file's end."""
    flags = libvirt.VIR_STREAM_RECV_STOP_AT_HOLE if sparse else 0
    while piece := incoming.recvFlags(CHUNK_BYTES, flags):
        yield incoming.recvHole() if piece == _AT_HOLE else piece


def _put(outgoing: Any, piece: bytes | int, at: int, written: int) -> int:
    """Send one piece and return its length; of a hole below ``written``, zeros."""
    if isinstance(piece, bytes):
        _send(outgoing, piece)
        return len(piece)
    zeros = max(0, min(at + piece, written) - at)
    for start in range(0, zeros, CHUNK_BYTES):
        _send(outgoing, bytes(min(CHUNK_BYTES, zeros - start)))
    if piece > zeros:
        outgoing.sendHole(piece - zeros)
    return piece


def _length(volume: Any) -> int:
    """The file's length in bytes, which for qcow2 is not the disk's."""
    return int(volume.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[_LENGTH])
