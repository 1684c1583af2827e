"""What libvirt's daemon keeps of domains, networks and pools in files, and pools' folders, as names
and stamps.

Only a domain's definition and its record have content here: see ``vnc_consoles.py``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.sim.libvirt import driver_node
from vgpumgr.sim.libvirt.known_domains import WRITES, Domain, KnownDomains, WrittenFile
from vgpumgr.sim.libvirt.volume_files import VolumeFiles
from vgpumgr.sim.linux.file_tree import FileTree

_FOLDERS = {
    "/etc/libvirt/qemu": WrittenFile.DEFINITION,
    "/etc/libvirt/qemu/autostart": WrittenFile.AUTOSTART,
    "/run/libvirt/qemu": WrittenFile.STATUS,
}
_NETWORKS = "/etc/libvirt/qemu/networks"
_PID = 812
_SUFFIX = ".xml"

Stamp = tuple[int, ...]


class LibvirtFiles:
    """The files of one daemon that runs since the machine's start."""

    def __init__(self, host: SimHost, domains: KnownDomains, volumes: VolumeFiles) -> None:
        self._host = host
        self._domains = domains
        self._volumes = volumes
        self._pools = {
            driver_node.pool_path(pool, host.pool_kind(pool)): pool for pool in host.pools
        }
        self._started = next(WRITES)

    def show(self, tree: FileTree) -> None:
        """Put them into the tree."""
        for folder, kind in _FOLDERS.items():
            tree.listing(folder, self._names(kind))
        for path, text in driver_node.pool_files(self._host).items():
            tree.text(path, text)
        for path, pool in self._pools.items():
            if self._host.pool_kind(pool) in {"dir", "netfs"}:
                tree.folder(path)
        for name in self._host.networks:
            tree.text(f"{_NETWORKS}/{name}{_SUFFIX}", "")
        tree.text("/run/libvirtd.pid", f"{_PID}\n")
        tree.text(f"/proc/{_PID}/stat", f"{_PID} (libvirtd) S {'0 ' * 18}{self._started} 0\n")
        tree.folder(f"/proc/{_PID}/fd")

    def stamp(self, path: str) -> Stamp:
        """Inode, times and size of a file, or of a pool's folder, that is there."""
        if path in self._pools:
            changed = self._volumes.written(self._pools[path])
            return changed, changed, changed, 0
        folder, name = posixpath.split(path)
        domain = self._domains.find(name.removesuffix(_SUFFIX))
        kind = _FOLDERS.get(folder)
        written = self._started if domain is None or kind is None else domain.written[kind]
        return written, written, written, 0

    def _names(self, kind: WrittenFile) -> Callable[[], Iterator[str]]:
        def names() -> Iterator[str]:
            for domain in self._domains.all():
                if _is_there(domain, kind):
                    yield f"{domain.needs.facts.name}{_SUFFIX}"

        return names


def _is_there(domain: Domain, kind: WrittenFile) -> bool:
    if kind is WrittenFile.STATUS:
        return domain.running is not None
    return domain.persistent and (kind is WrittenFile.DEFINITION or domain.autostart)
