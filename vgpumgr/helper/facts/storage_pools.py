"""Where the volumes of libvirt's storage pools lie, by libvirt's own files."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from vgpumgr.helper.system import System

# Defined pools, and those that are active now (storage_conf.c: virStoragePoolObjLoadAllConfigs,
# virStoragePoolObjLoadAllState).
DEFINED, ACTIVE = "/etc/libvirt/storage", "/run/libvirt/storage"
# Pools whose volumes are files in a folder.
_KINDS = ("dir", "fs", "netfs")
_SUFFIX = ".xml"
_MAX_CHARS = 1 << 20


def pool_folders(system: System) -> tuple[str, ...]:
    """The target of each pool, without a slash at its end; a file that makes no sense is no pool.

    OSError where libvirt's folder could not be read.
    """
    found = (_target(system.read(path)) for path in _files(system))
    return tuple(dict.fromkeys(path.rstrip("/") for path in found if path))


def _files(system: System) -> Iterator[str]:
    for folder in (DEFINED, ACTIVE):
        if system.exists(folder):
            names = system.list(folder)
            yield from (f"{folder}/{name}" for name in names if name.endswith(_SUFFIX))


def _target(text: str) -> str:
    """The absolute path in a pool's definition, or in the state that wraps it; empty for none."""
    if len(text) > _MAX_CHARS or "<!DOCTYPE" in text:
        return ""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  root's file, no DOCTYPE
    except ElementTree.ParseError:
        return ""
    pool = root if root.tag == "pool" else root.find("pool")
    if pool is None or pool.get("type") not in _KINDS:
        return ""
    path = pool.findtext("target/path") or ""
    return path if path.startswith("/") else ""
