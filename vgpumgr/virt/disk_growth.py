"""A running domain's disk made larger (``model.ports.Domains``): libvirt's block resize."""

from __future__ import annotations

from typing import Any

import libvirt

from vgpumgr.model.errors import HostRefused


def grow(domain: Any, disk: str, capacity_bytes: int) -> None:
    """Make it as large as that. HostRefused where it is larger already, or the domain is off."""
    doing = f"grow disk {disk} of domain {domain.name()}"
    if not domain.isActive():
        raise HostRefused(f"cannot {doing}", why="it is off")
    now = size(domain, disk)
    if now > capacity_bytes:
        raise HostRefused(f"cannot {doing}", why=f"it has {now} bytes, and would be cut")
    domain.blockResize(disk, capacity_bytes, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def size(domain: Any, disk: str) -> int:
    """How many bytes its guest sees."""
    return int(domain.blockInfo(disk, 0)[0])
