"""A running domain's disks copied as they are at one moment (``model.ports.Domains``).

libvirt calls it a backup in push mode: QEMU writes into files that were made before, and what the
guest overwrites meanwhile is copied first (libvirt 6.0, QEMU 4.2). A domain has one such job at a
time. How the last one ended is known for as long as the domain runs and its daemon lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import libvirt

from vgpumgr.domainxml.backup_xml import backup_files, checkpoint, disk_backup
from vgpumgr.model.domain import MoveProgress
from vgpumgr.model.errors import HostRefused
from vgpumgr.virt import disk_switch
from vgpumgr.virt.libvirt_errors import broken, is_unsupported

_BACKUP = libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
_KEPT = libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED | libvirt.VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoint that is made with a backup, and the one since which it copies what was
    written; empty for none.
    """

    made: str = ""
    since: str = ""


def begin(domain: Any, files: Mapping[str, str], marks: Checkpoints, *, freeze: bool) -> None:
    """Begin it; with ``freeze`` the guest's file systems are frozen for that moment alone.

    HostRefused when the domain is off.
    """
    doing = f"back up the disks of domain {domain.name()}"
    if not domain.isActive():
        raise HostRefused(f"cannot {doing}", why="it is off")
    try:
        live = str(domain.XMLDesc(0))
        xml = disk_backup(live, files, marks.since)
        mark = checkpoint(live, files, marks.made) if marks.made else None
    except ValueError as error:
        raise HostRefused(f"cannot {doing}", why=str(error)) from error
    if not freeze:
        _begin(domain, xml, mark)
        return
    disk_switch.thaw(domain)  # a guest that is frozen already refuses to be frozen
    domain.fsFreeze()
    try:
        _begin(domain, xml, mark)
    finally:
        disk_switch.thaw(domain)


def _begin(domain: Any, xml: str, mark: str | None) -> None:
    domain.backupBegin(xml, mark, libvirt.VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL)


def checkpoints(domain: Any) -> frozenset[str]:
    """The names of a domain's checkpoints; none where its driver knows no such thing."""
    try:
        return frozenset(each.getName() for each in domain.listAllCheckpoints(0))
    except libvirt.libvirtError as error:
        if is_unsupported(error):
            return frozenset()
        raise


def forget(domain: Any, name: str) -> None:
    """Delete a checkpoint, with what QEMU remembers for it; libvirt's own record alone where the
    disk's file has it no more. One that is off keeps what it has.
    """
    if not domain.isActive() or name not in checkpoints(domain):
        return
    found = domain.checkpointLookupByName(name, 0)
    try:
        found.delete(0)
    except libvirt.libvirtError:
        if broken(domain.connect()):
            raise
        found.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)


def progress(domain: Any) -> MoveProgress | None:
    """How far it is; None when it has ended well. HostRefused when it failed, or is not known."""
    doing = f"back up the disks of domain {domain.name()}"
    if not domain.isActive():
        raise HostRefused(f"cannot {doing}", why="it went off meanwhile")
    if (now := _job(domain, 0)) is not None:
        total = int(now.get("disk_total", 0))
        return MoveProgress(total_bytes=total, left_bytes=int(now.get("disk_remaining", total)))
    ended = _job(domain, _KEPT)
    if ended is None:
        raise HostRefused(f"cannot {doing}", why="libvirt knows of no such job, nor how it ended")
    if not ended.get("success", True):
        why = str(ended.get("errmsg") or "the job failed")
        raise HostRefused(f"cannot {doing}", why=why)
    return None


def _job(domain: Any, flags: int) -> Mapping[str, Any] | None:
    """The job that is under way, or the last that ended, where it is such a one."""
    found: Mapping[str, Any] = domain.jobStats(flags)
    return found if found.get("operation") == _BACKUP else None


def cancel(domain: Any, files: Mapping[str, str]) -> None:
    """End one that is under way into these files: another tool's goes on."""
    if not domain.isActive() or _job(domain, 0) is None:
        return
    if backup_files(str(domain.backupGetXMLDesc(0))) & set(files.values()):
        domain.abortJob()
