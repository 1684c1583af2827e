"""Where the volumes of libvirt's storage pools lie, by libvirt's own files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from xml.etree import ElementTree

from vgpumgr.helper import sysfs
from vgpumgr.helper.allowed_programs import STAT
from vgpumgr.helper.facts.pool_definitions import definitions
from vgpumgr.helper.system import System

# Pools whose volumes are files in a folder.
_KINDS = ("dir", "fs", "netfs")


def pool_folders(system: System) -> tuple[str, ...]:
    """The target of each pool, without a slash at its end.

    OSError where libvirt's folder could not be read.
    """
    found = map(_target, definitions(system))
    return tuple(dict.fromkeys(path.rstrip("/") for path in found if path))


def _target(pool: ElementTree.Element) -> str:
    """Its absolute path; empty for none."""
    if pool.get("type") not in _KINDS:
        return ""
    path = pool.findtext("target/path") or ""
    return path if path.startswith("/") else ""


# File systems that answer by themselves. To look at a folder of a server that does not answer
# would hang the look.
_LOCAL = frozenset(("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"))
_MOUNTS = "/proc/self/mountinfo"
_MOST_LINKS = 40


def local_folders(system: System) -> tuple[str, ...]:
    """The targets of pools, links followed, that lie on file systems of the host's own."""
    mounts = _mounts(sysfs.optional_text(system, _MOUNTS) or "")
    found = (_local_path(system, mounts, path) for path in pool_folders(system))
    return tuple(path for path in found if path)


_ANSWERS_S = 2.0
_TIMED_OUT = 124


def pool_names(system: System) -> list[str]:
    """The pools that libvirt's files define, by name; none without root, who alone reads these."""
    if not system.root():
        return []
    found = (pool.findtext("name") or "" for pool in definitions(system))
    return sorted({name for name in found if name})


def stalled(system: System) -> list[str]:
    """The names of the pools in folders whose server does not answer.

    Whatever looks at such a folder hangs, and libvirt, once it has looked, with all that lists its
    pools. Each is asked by a program that is cut. None without root, as above.
    """
    if not system.root():
        return []
    mounts = _mounts(sysfs.optional_text(system, _MOUNTS) or "")
    found = {}
    for pool in definitions(system):
        path = _target(pool).rstrip("/")
        if path and path in mounts and mounts[path] not in _LOCAL:
            found[pool.findtext("name") or ""] = path
    return sorted(name for name, path in found.items() if name and _hangs(system, path))


def _hangs(system: System, path: str) -> bool:
    status, _ = system.run((STAT, "-f", path), _ANSWERS_S)
    return status == _TIMED_OUT


def _mounts(text: str) -> Mapping[str, str]:
    """File systems by mount point; of those over each other, the last counts."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point, kind = before.split()[4], after.split()[0]
        found[point.encode().decode("unicode_escape")] = kind
    return found


def _local_path(system: System, mounts: Mapping[str, str], path: str) -> str | None:
    """The path without links; None where it leads over a file system that may not answer."""
    left, real, links = _steps(path), "", 0
    while left:
        step = posixpath.normpath(f"{real}/{left.pop(0)}")
        if step in mounts and mounts[step] not in _LOCAL:
            return None
        target = system.link(step)
        if target is None:
            real = step
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        left, real = [*_steps(posixpath.join(real or "/", target)), *left], ""
    return real


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step]
