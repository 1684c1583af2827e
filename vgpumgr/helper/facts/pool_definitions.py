"""The definitions of libvirt's storage pools, by its own files, which only root can write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from vgpumgr.helper.system import System

# Defined pools, and pools that are active now (storage_conf.c: virStoragePoolObjLoadAllConfigs,
# virStoragePoolObjLoadAllState).
DEFINED, ACTIVE = "/etc/libvirt/storage", "/run/libvirt/storage"
# What libvirt keeps of a secret's value: as text that Ceph's tools read (virsecretobj.c).
_SECRETS = "/etc/libvirt/secrets"
_SUFFIX = ".xml"
_MAX_CHARS = 1 << 20


@dataclass(frozen=True)
class CephSource:
    """Where a pool of kind ``rbd`` lies: its monitors, Ceph's own name of it, and its login."""

    monitors: tuple[str, ...]
    name: str
    user: str
    key_file: str


def definitions(system: System) -> Iterator[ElementTree.Element]:
    """The ``<pool>`` of each file; one that cannot be understood is no pool.

    OSError where libvirt's folder could not be read.
    """
    for path in _files(system):
        pool = _pool(system.read(path))
        if pool is not None:
            yield pool


def volume_groups(system: System) -> frozenset[str]:
    """The volume groups of LVM's that are pools of libvirt's."""
    found = (
        (pool.findtext("source/name") or pool.findtext("name") or "").strip()
        for pool in definitions(system)
        if pool.get("type") == "logical"
    )
    return frozenset(name for name in found if name)


def ceph_source(system: System, name: str) -> CephSource | None:
    """Of the pool of kind ``rbd`` that libvirt knows by that name; None where there is none."""
    for pool in definitions(system):
        source = pool.find("source")
        if pool.get("type") == "rbd" and pool.findtext("name") == name and source is not None:
            return _ceph(source)
    return None


def _ceph(source: ElementTree.Element) -> CephSource:
    login, secret = source.find("auth"), source.find("auth/secret")
    uuid = "" if secret is None else secret.get("uuid", "")
    return CephSource(
        monitors=tuple(map(_monitor, source.findall("host"))),
        name=(source.findtext("name") or "").strip(),
        user="" if login is None else login.get("username", ""),
        key_file=f"{_SECRETS}/{uuid}.base64" if uuid else "",
    )


def _monitor(host: ElementTree.Element) -> str:
    name, port = host.get("name", ""), host.get("port", "")
    shown = f"[{name}]" if ":" in name else name
    return f"{shown}:{port}" if port else shown


def _files(system: System) -> Iterator[str]:
    for folder in (DEFINED, ACTIVE):
        if system.exists(folder):
            names = system.list(folder)
            yield from (f"{folder}/{name}" for name in names if name.endswith(_SUFFIX))


def _pool(text: str) -> ElementTree.Element | None:
    """The definition, or the one in the state that wraps it."""
    if len(text) > _MAX_CHARS or "<!DOCTYPE" in text:
        return None
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  root's file, no DOCTYPE
    except ElementTree.ParseError:
        return None
    return root if root.tag == "pool" else root.find("pool")
