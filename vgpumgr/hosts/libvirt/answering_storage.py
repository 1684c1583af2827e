"""The storage of a host where pools are stalled: what is asked of these is refused at once.

A call on such a pool would hang, and a thread of libvirt's with it for as long as the server is
gone: after a few, libvirt would answer nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import StoragePool
from vgpumgr.model.ports import Host, Storage


class AnsweringStorage:
    """Fulfils ``ports.Storage``, with all of ``storage`` but the ``stalled`` pools."""

    def __init__(self, host: str, storage: Storage, stalled: Collection[str]) -> None:
        self._host = host
        self._storage = storage
        self._stalled = stalled

    def answering(self, pool: str) -> Storage:
        """The storage, for a call on that pool; HostRefused where it is stalled."""
        if pool in self._stalled:
            raise HostRefused(
                f"storage pool {pool} on {self._host} does not answer",
                why="its server is gone, or hangs; no call on it was begun",
                next=f"on {self._host}: virsh pool-dumpxml {pool}   (names its server); "
                f"then vgpumgr host probe {self._host}",
            )
        return self._storage

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        """The pools that answer."""
        if only is None:
            return self._storage.pools()
        return self._storage.pools([name for name in only if name not in self._stalled])

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None."""
        return self.answering(pool).look(pool, volume)

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        """Create a volume; what it is copied from must answer, too."""
        self.answering(from_pool or pool)
        return self.answering(pool).create(pool, xml, copy_from=copy_from, from_pool=from_pool)

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write into a volume."""
        self.answering(pool).upload(pool, volume, data)

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        """Read a volume's file."""
        return self.answering(pool).read(pool, volume, most_bytes)

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        """Every volume of a pool."""
        return self.answering(pool).volumes(pool)

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write a volume's whole file."""
        self.answering(pool).fill(pool, volume, length, pieces)

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make a volume larger."""
        self.answering(pool).grow(pool, volume, capacity_bytes)

    def delete(self, pool: str, volume: str) -> None:
        """Delete a volume."""
        self.answering(pool).delete(pool, volume)

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML."""
        return self.answering(pool).xml(pool, volume)

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        """Copy a volume's file to another host."""
        self.answering(pool).copy_to(pool, volume, target, seen)
