"""libvirt of a simulated host as a client sees it."""

from __future__ import annotations

from vgpumgr.sim.transport.calls import Call
from vgpumgr.sim.transport.moving import Place
from vgpumgr.sim.transport.proxy_domains import ProxyDomains
from vgpumgr.sim.transport.proxy_storage import ProxyStorage

_NAMES = tuple[str, ...]
_VERSIONS = tuple[str, str]


class ProxyLibvirt:
    """Domains, storage and the rest of a connection."""

    def __init__(self, call: Call, place: Place) -> None:
        self._call = call
        self.domains = ProxyDomains(call, place)
        self.storage = ProxyStorage(call, place)

    def networks(self) -> _NAMES:
        """The names of libvirt's networks."""
        found: _NAMES = self._call("node", "networks", {}, _NAMES)
        return found

    def versions(self) -> _VERSIONS:
        """Versions of libvirt and QEMU."""
        found: _VERSIONS = self._call("node", "versions", {}, _VERSIONS)
        return found
