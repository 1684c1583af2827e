"""libvirt of a real host: every call under a deadline, long jobs on a connection of their own."""

from __future__ import annotations

from vgpumgr.hosts.libvirt.link import LibvirtLink
from vgpumgr.model.domain import DomainFacts, VolumeFacts
from vgpumgr.model.host import StoragePool


class GuardedLibvirt:
    """Fulfils ``reached.LibvirtLike`` over two connections, so that a job never blocks a look."""

    def __init__(self, short: LibvirtLink, long: LibvirtLink) -> None:
        self._short = short
        self._long = long
        self.domains = GuardedDomains(short, long)
        self.storage = GuardedStorage(short, long)

    def networks(self) -> tuple[str, ...]:
        """The names of libvirt's networks."""
        return self._short.read(lambda libvirt: libvirt.networks())

    def versions(self) -> tuple[str, str]:
        """Versions of libvirt and of its hypervisor."""
        return self._short.read(lambda libvirt: libvirt.versions())

    def close(self) -> None:
        """Drop both connections."""
        self._short.close()
        self._long.close()


class GuardedDomains:
    """Fulfils ``ports.Domains``."""

    def __init__(self, short: LibvirtLink, long: LibvirtLink) -> None:
        self._short = short
        self._long = long

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain."""
        return self._short.read(lambda libvirt: libvirt.domains.list())

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None."""
        return self._short.read(lambda libvirt: libvirt.domains.look(name))

    def xml(self, name: str) -> str:
        """Its inactive XML."""
        return self._short.read(lambda libvirt: libvirt.domains.xml(name))

    def define(self, xml: str) -> str:
        """Define and read back."""
        return self._short.change(lambda libvirt: libvirt.domains.define(xml))

    def start(self, name: str) -> None:
        """Start; long: with a whole GPU, all of the guest's memory is pinned first."""
        self._long.change(lambda libvirt: libvirt.domains.start(name))

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off."""
        self._short.change(lambda libvirt: libvirt.domains.shutdown(name))

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""
        self._short.change(lambda libvirt: libvirt.domains.reboot(name))

    def destroy(self, name: str) -> None:
        """Power off; long: QEMU may take a while to let go of memory and devices."""
        self._long.change(lambda libvirt: libvirt.domains.destroy(name))

    def undefine(self, name: str) -> None:
        """Forget it."""
        self._short.change(lambda libvirt: libvirt.domains.undefine(name))

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        self._short.change(lambda libvirt: libvirt.domains.set_autostart(name, on))


class GuardedStorage:
    """Fulfils ``ports.Storage``."""

    def __init__(self, short: LibvirtLink, long: LibvirtLink) -> None:
        self._short = short
        self._long = long

    def pools(self) -> tuple[StoragePool, ...]:
        """Every storage pool."""
        return self._short.read(lambda libvirt: libvirt.storage.pools())

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None."""
        return self._short.read(lambda libvirt: libvirt.storage.look(pool, volume))

    def create(self, pool: str, xml: str, *, copy_from: str | None = None) -> VolumeFacts:
        """Create a volume; a copy is a long job."""
        link = self._short if copy_from is None else self._long
        return link.change(lambda libvirt: libvirt.storage.create(pool, xml, copy_from=copy_from))

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write into a volume."""
        self._long.change(lambda libvirt: libvirt.storage.upload(pool, volume, data))

    def delete(self, pool: str, volume: str) -> None:
        """Delete a volume."""
        self._short.change(lambda libvirt: libvirt.storage.delete(pool, volume))
