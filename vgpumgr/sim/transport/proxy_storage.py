"""The storage of a simulated host as a client sees it: every call goes through one function."""

from __future__ import annotations

from collections.abc import Callable

from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.host import StoragePool
from vgpumgr.model.ports import Host
from vgpumgr.sim.transport.calls import Call
from vgpumgr.sim.transport.moving import Place, no_peer

_POOLS = tuple[StoragePool, ...]


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
