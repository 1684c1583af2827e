"""What libvirt keeps on disk of a running domain, and the sockets of QEMU's VNC servers."""

from __future__ import annotations

import errno
import posixpath
import socket

from lxml import etree

from vgpumgr.domainxml.xml import untrusted
from vgpumgr.helper.verbs.console import SOCKETS, STATUS
from vgpumgr.sim import vnc
from vgpumgr.sim.libvirt.domain import Domain
from vgpumgr.sim.libvirt.known import KnownDomains
from vgpumgr.sim.linux.tree import refusal

_SUFFIX = ".xml"


class Consoles:
    """The part of ``/run/libvirt`` and ``/var/lib/libvirt`` that the helper looks at."""

    def __init__(self, domains: KnownDomains) -> None:
        self._domains = domains

    def keeps(self, path: str) -> bool:
        """Is it libvirt's record of a domain?"""
        return posixpath.dirname(path) == STATUS and path.endswith(_SUFFIX)

    def record(self, path: str) -> str:
        """The record; FileNotFoundError while no such domain runs."""
        domain = self._domains.find(posixpath.basename(path).removesuffix(_SUFFIX))
        if domain is None or domain.running is None:
            raise refusal(errno.ENOENT, path)
        live = untrusted(domain.live, "domain")
        for listen in live.iterfind("devices/graphics[@type='vnc']/listen[@type='socket']"):
            listen.set("socket", _socket_path(domain))
        status = etree.Element("domstatus", state="running", reason="booted")
        status.append(live)
        return etree.tostring(status, encoding="unicode")

    def dial(self, path: str) -> socket.socket:
        """A connection to the VNC server that listens there."""
        for domain in self._domains.all():
            if domain.running is not None and path == _socket_path(domain):
                near, far = socket.socketpair()
                domain.viewers.append(far)
                vnc.serve(far, domain.needs.facts.name)
                return near
        raise refusal(errno.ENOENT, path)


def _socket_path(domain: Domain) -> str:
    return f"{SOCKETS}/domain-{domain.needs.facts.name[:20]}/vnc.sock"
