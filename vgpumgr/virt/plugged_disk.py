"""Disks that a running domain is given for a while (``model.ports.Domains``): its definition, which
the next start goes by, does not name them.
"""

from __future__ import annotations

from typing import Any

import libvirt

from vgpumgr.domainxml.plugged_disk_xml import disk_of, disk_text
from vgpumgr.model.errors import HostRefused


def attach(domain: Any, xml: str) -> None:
    """Attach it; one that is there already is no error."""
    live, (target, path) = _live(domain, "attach a disk to"), disk_of(xml)
    found = disk_text(live, target)
    if found and disk_of(found) == (target, path):
        return
    domain.attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def detach(domain: Any, disk: str) -> None:
    """Ask the guest to let go of it. What libvirt has seen of it so far the live XML shows."""
    found = disk_text(_live(domain, "detach a disk from"), disk)
    if found:
        domain.detachDeviceFlags(found, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _live(domain: Any, doing: str) -> str:
    if not domain.isActive():
        raise HostRefused(f"cannot {doing} domain {domain.name()}", why="it is off")
    return str(domain.XMLDesc(0))
