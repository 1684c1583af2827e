"""The files below a running domain's disks (``model.ports.Domains``): others from one moment on, or
fewer; and larger disks.

The first is what libvirt calls an external, disk-only snapshot: QEMU opens the new files over the
old ones and changes over all disks in one transaction. The files are made before, and libvirt keeps
no record. The second is its block pull: QEMU copies into the file that the guest writes to what it
lacks, and then leaves out what is below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import libvirt

from vgpumgr.domainxml.snapshot_xml import disk_switch
from vgpumgr.model.domain import MoveProgress
from vgpumgr.model.errors import HostRefused
from vgpumgr.virt.libvirt_errors import broken

_FLAGS = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
)
_FREEZE = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE


def switch(domain: Any, files: Mapping[str, str], *, freeze: bool) -> None:
    """Change over; with ``freeze`` the guest's agent freezes its file systems meanwhile.

    HostRefused when the domain is off: libvirt would then make files of its own.
    """
    doing = f"change over the disks of domain {domain.name()}"
    if not domain.isActive():
        raise HostRefused(f"cannot {doing}", why="it is off")
    if freeze:
        thaw(domain)  # a guest that is frozen already refuses to be frozen
    try:
        xml = disk_switch(str(domain.XMLDesc(0)), files)
    except ValueError as error:
        raise HostRefused(f"cannot {doing}", why=str(error)) from error
    domain.snapshotCreateXML(xml, _FLAGS | (_FREEZE if freeze else 0))


def thaw(domain: Any) -> None:
    """Let the guest write again. A guest that is off, or has no agent that answers, is left."""
    try:
        domain.fsThaw()
    except libvirt.libvirtError:
        if broken(domain.connect()):
            raise


def begin_pull(domain: Any, disk: str, below: str) -> None:
    """Begin to leave out what is between the disk's file and ``below`` (empty: all that is below
    it); one under way is no error. HostRefused when the domain is off.
    """
    if not domain.isActive():
        raise HostRefused(f"cannot pull disk {disk} of domain {domain.name()}", why="it is off")
    if domain.blockJobInfo(disk, 0):
        return
    if below:
        domain.blockRebase(disk, below, 0, 0)
    else:
        domain.blockPull(disk, 0, 0)


def pull_progress(domain: Any, disk: str) -> MoveProgress | None:
    """How far it is; None where none is under way."""
    info = domain.blockJobInfo(disk, 0) if domain.isActive() else None
    if not info:
        return None
    return MoveProgress(total_bytes=info["end"], left_bytes=max(0, info["end"] - info["cur"]))


def cancel_pull(domain: Any, disk: str) -> None:
    """End one that is under way: the disk reads as before."""
    if pull_progress(domain, disk) is not None:
        domain.blockJobAbort(disk, 0)


def grow_disk(domain: Any, disk: str, capacity_bytes: int) -> None:
    """Make it as large as that. HostRefused where it is larger already, or the domain is off."""
    doing = f"grow disk {disk} of domain {domain.name()}"
    if not domain.isActive():
        raise HostRefused(f"cannot {doing}", why="it is off")
    now = disk_size(domain, disk)
    if now > capacity_bytes:
        raise HostRefused(f"cannot {doing}", why=f"it has {now} bytes, and would be cut")
    domain.blockResize(disk, capacity_bytes, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def disk_size(domain: Any, disk: str) -> int:
    """How many bytes its guest sees."""
    return int(domain.blockInfo(disk, 0)[0])
