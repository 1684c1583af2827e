"""The storage of one simulated host: libvirt's test driver, with files that can be read."""

from __future__ import annotations

import base64
import errno
import json
import zlib
from collections.abc import Callable

from vgpumgr import domainxml, virt
from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.domain import VolumeFacts, VolumePlan
from vgpumgr.model.errors import HostRefused, NotFound
from vgpumgr.model.host import StoragePool
from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.durable import Durable
from vgpumgr.sim.libvirt import image
from vgpumgr.sim.libvirt.node import pool_path
from vgpumgr.sim.linux.tree import refusal

IMAGE_BYTES = 10 << 30

_VOLUME, _DATA, _SEEDED = "volume:", "data:", "images made"


class SimStorage:
    """Fulfils ``ports.Storage``. Volumes, and what was uploaded to them, survive a power cut.

    ``libvirt`` gives the connection; what is only read comes from our own records.
    """

    def __init__(
        self, host: SimHost, durable: Durable, libvirt: Callable[[], virt.Libvirt]
    ) -> None:
        self._host = host
        self._durable = durable
        self._libvirt = libvirt
        self._by_path: dict[str, VolumeFacts] = {}
        self._seed()
        for text in durable.under(_VOLUME).values():
            facts = from_plain(VolumeFacts, json.loads(text)["facts"])
            if facts.pool in host.pools:
                self._by_path[facts.path] = facts

    def replay(self, libvirt: virt.Libvirt) -> None:
        """Make all volumes known to a fresh connection."""
        for text in self._durable.under(_VOLUME).values():
            record = json.loads(text)
            if record["facts"]["path"] in self._by_path:
                libvirt.storage.create(record["facts"]["pool"], record["xml"])

    def pools(self) -> tuple[StoragePool, ...]:
        """Every storage pool."""
        return self._libvirt().storage.pools()

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None; NotFound when there is no such pool."""
        if pool not in self._host.pools:
            raise NotFound(f"there is no storage pool {pool}", next="virsh pool-list --all")
        return self._by_path.get(f"{pool_path(pool)}/{volume}")

    def create(self, pool: str, xml: str, *, copy_from: str | None = None) -> VolumeFacts:
        """Create a volume; a backing file that is not there is refused, as by qemu-img."""
        self._require_backing(pool, xml)
        facts = self._libvirt().storage.create(pool, xml, copy_from=copy_from)
        self._keep(facts, xml)
        source = self._data_key(pool, copy_from) if copy_from else ""
        if source in self._durable:
            self._durable[self._data_key(pool, facts.name)] = self._durable[source]
        return facts

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Keep ``data`` as the volume's first bytes."""
        if self.look(pool, volume) is None:
            raise NotFound(
                f"there is no volume {volume} in storage pool {pool}",
                next=f"virsh vol-list {pool}",
            )
        packed = base64.b64encode(zlib.compress(data, 1)).decode()
        self._durable[self._data_key(pool, volume)] = packed

    def delete(self, pool: str, volume: str) -> None:
        """Delete; an absent volume is no error."""
        facts = self.look(pool, volume)
        if facts is None:
            return
        self._libvirt().storage.delete(pool, volume)
        del self._by_path[facts.path]
        del self._durable[f"{_VOLUME}{pool}/{volume}"]
        self._durable.pop(self._data_key(pool, volume), None)

    def exists(self, path: str) -> bool:
        """Is there a volume at that path?"""
        return path in self._by_path

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """A volume's first bytes and its size; FileNotFoundError where there is none."""
        facts = self._by_path.get(path)
        if facts is None:
            raise refusal(errno.ENOENT, path)
        packed = self._durable.get(self._data_key(facts.pool, facts.name), "")
        uploaded = zlib.decompress(base64.b64decode(packed)) if packed else b""
        return image.head(facts, uploaded, limit)

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
            self._keep(facts, domainxml.volume(plan))
        self._durable[_SEEDED] = "yes"

    def _keep(self, facts: VolumeFacts, xml: str) -> None:
        self._by_path[facts.path] = facts
        record = json.dumps({"facts": to_plain(facts), "xml": xml})
        self._durable[f"{_VOLUME}{facts.pool}/{facts.name}"] = record

    def _require_backing(self, pool: str, xml: str) -> None:
        doing = f"cannot create a volume in storage pool {pool}"
        try:
            backing = untrusted(xml, "volume").findtext("backingStore/path")
        except ValueError as error:
            raise HostRefused(doing, why=str(error)) from error
        if backing and not self.exists(backing):
            why = f"internal error: qemu-img: Could not open '{backing}': No such file or directory"
            raise HostRefused(doing, why=why, errno_name="ENOENT")

    @staticmethod
    def _data_key(pool: str, volume: str) -> str:
        return f"{_DATA}{pool}/{volume}"
