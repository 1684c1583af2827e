"""A fingerprint of libvirt's state on disk: as long as it stays, libvirt's lists are the same.

libvirt writes a domain's status file at every change of its state, and its definition, autostart
link, pool or network file when one of these changes. Volumes that come or go change the folder
that they lie in, which is looked at where it is local; volumes that grow change nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.helper import digests, sysfs
from vgpumgr.helper.facts.storage_pools import local_folders
from vgpumgr.helper.system import System

# The folders of the QEMU, storage and network drivers, which libvirtd and the modular daemons
# share (qemu_conf.c, storage_driver.c, bridge_driver.c). Leases and sockets, which change by
# themselves, lie elsewhere.
FOLDERS = (
    "/etc/libvirt/nwfilter",
    "/etc/libvirt/qemu",
    "/etc/libvirt/qemu/autostart",
    "/etc/libvirt/qemu/networks",
    "/etc/libvirt/storage",
    "/run/libvirt/network",
    "/run/libvirt/qemu",
    "/run/libvirt/storage",
)
DAEMONS = ("libvirtd", "virtqemud", "virtstoraged", "virtnetworkd")
_SUFFIX = ".xml"
# Fields 3 and 22 of /proc/PID/stat, counted from behind the program's name.
_STATE, _START_TIME = 0, 19
# Stopped, ended and not yet waited for, or dead: nothing that would write a file.
_STILL = frozenset("TtZXx")


def fingerprint(system: System) -> str | None:
    """None where no daemon runs that keeps these files, or one of them may not be looked at."""
    try:
        daemons = list(_daemons(system))
        if not daemons:
            return None
        folders = [(path, system.stamp(path)) for path in local_folders(system)]
        return digests.of([daemons, list(_files(system)), folders])
    except (OSError, ValueError, IndexError):
        return None


def _daemons(system: System) -> Iterator[tuple[str, int, str]]:
    """Name, process and start time of each that runs: one that was restarted has read its files
    anew.
    """
    for name in DAEMONS:
        written = sysfs.optional_text(system, f"/run/{name}.pid")
        stat = sysfs.optional_text(system, f"/proc/{int(written)}/stat") if written else None
        fields = stat.rpartition(")")[2].split() if stat else ()
        if written and fields and fields[_STATE] not in _STILL:
            yield name, int(written), fields[_START_TIME]


def _files(system: System) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    for folder in FOLDERS:
        for name in system.list(folder) if system.exists(folder) else ():
            if name.endswith(_SUFFIX):
                yield f"{folder}/{name}", system.stamp(f"{folder}/{name}")
