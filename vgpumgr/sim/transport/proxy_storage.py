"""The storage of a simulated host as a client sees it: every call goes through one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.model.size import size_words
from vgpumgr.sim.transport.calls import Call
from vgpumgr.sim.transport.moving import Place, no_peer

_POOLS = tuple[StoragePool, ...]
_VOLUMES = tuple[VolumeFacts, ...]
# Simulated hosts keep what lies on their disks in memory.
_MOST_DATA_BYTES = 64 << 20


class ProxyStorage:
    """Fulfils ``ports.Storage``."""

    def __init__(self, call: Call, place: Place) -> None:
        self._call = call
        self._place = place

    def pools(self) -> _POOLS:
        """Every storage pool."""
        found: _POOLS = self._call("storage", "pools", {}, _POOLS)
        return found

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None."""
        arguments = {"pool": pool, "volume": volume}
        found: VolumeFacts | None = self._call("storage", "look", arguments, VolumeFacts | None)
        return found

    def create(self, pool: str, xml: str, *, copy_from: str | None = None) -> VolumeFacts:
        """Create a volume."""
        arguments = {"pool": pool, "xml": xml, "copy_from": copy_from}
        made: VolumeFacts = self._call("storage", "create", arguments, VolumeFacts)
        return made

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write into a volume."""
        self._call("storage", "upload", {"pool": pool, "volume": volume, "data": data}, None)

    def volumes(self, pool: str) -> _VOLUMES:
        """Every volume of a pool."""
        found: _VOLUMES = self._call("storage", "volumes", {"pool": pool}, _VOLUMES)
        return found

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write a volume's whole file; it goes in one piece, without the zeros at its end."""
        data, holes = bytearray(), 0
        for piece in pieces:
            if isinstance(piece, int):
                holes += piece
                continue
            if len(data) + holes + len(piece) > _MOST_DATA_BYTES:
                raise HostRefused(
                    f"volume {volume} is too large for a simulated host",
                    why=f"it keeps {size_words(_MOST_DATA_BYTES)} of a volume's data at most",
                    next="use a smaller file for trials",
                )
            data += bytes(holes) + piece
            holes = 0
        arguments = {"pool": pool, "volume": volume, "length": length, "data": bytes(data)}
        self._call("storage", "fill", arguments, None)

    def delete(self, pool: str, volume: str) -> None:
        """Delete a volume."""
        self._call("storage", "delete", {"pool": pool, "volume": volume}, None)

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML."""
        return str(self._call("storage", "xml", {"pool": pool, "volume": volume}, str))

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        """A volume's file into its namesake's: simulated ones are small, and go in one piece."""
        peer = target.storage
        if not isinstance(peer, ProxyStorage):
            raise no_peer(self._place, target)
        named = {"pool": pool, "volume": volume}
        content = to_plain(self._call("storage", "download", named, None))
        peer._call("storage", "receive", {**named, "content": content}, None)
        seen(content["length"])
