"""The ``<source>`` of a disk: a file, a block device, or a volume of Ceph's over the network."""

from __future__ import annotations

from uuid import UUID

from lxml import etree

from vgpumgr.domainxml.xml_tree import XmlTree
from vgpumgr.model.domain import DiskType, DomainDisk, PoolSource

_PATHS = {DiskType.FILE: "file", DiskType.BLOCK: "dev", DiskType.NETWORK: "name"}
_RBD = "rbd"


def write_source(tree: XmlTree, disk: DomainDisk) -> None:
    """Say in a ``<disk>`` where its data lies."""
    tree.set("@type", disk.type)
    tree.drop("source/@file")
    tree.set(f"source/@{_PATHS[disk.type]}", disk.path)
    if disk.type is not DiskType.NETWORK:
        return
    tree.set("source/@protocol", _RBD)
    for server in disk.server.hosts:
        name, port = _split(server)
        tree.add("source", "host", name=name, **({"port": port} if port else {}))
    if disk.server.user:
        tree.add("source", "auth", username=disk.server.user)
        tree.add("source/auth", "secret", type="ceph", **_secret(disk.server.secret))


def _split(server: str) -> tuple[str, str]:
    """``[fe80::1]:6789`` → (``fe80::1``, ``6789``); the port is empty where there is none."""
    name, bracket, rest = server.removeprefix("[").partition("]")
    if server.startswith("[") and bracket:
        return name, rest.removeprefix(":")
    host, _, port = server.partition(":")
    return host, port


def server_text(name: str, port: str) -> str:
    """A server as :class:`PoolSource` has it."""
    shown = f"[{name}]" if ":" in name else name
    return f"{shown}:{port}" if port else shown


def _secret(name: str) -> dict[str, str]:
    """libvirt knows a secret by its UUID, or by what it is for."""
    try:
        return {"uuid": str(UUID(name))}
    except ValueError:
        return {"usage": name}


def disk_type(disk: etree._Element) -> DiskType:
    """How QEMU opens a ``<disk>``; a file where libvirt has a kind of its own for it."""
    kind = disk.get("type", "")
    return DiskType(kind) if kind in set(DiskType) else DiskType.FILE


def source_path(source: etree._Element | None) -> str:
    """The path of a file or block device, or POOL/NAME of a volume of Ceph's; empty for others."""
    if source is None:
        return ""
    if source.get("protocol", _RBD) != _RBD:
        return ""
    found = (source.get(attribute) for attribute in _PATHS.values())
    return next((str(each) for each in found if each), "")


def set_source_path(source: etree._Element, path: str) -> None:
    """Have a source that has a path lie at another one."""
    for attribute in _PATHS.values():
        if source.get(attribute):
            source.set(attribute, path)
            return


def source_server(disk: etree._Element) -> PoolSource:
    """Where a ``<disk>`` over the network is; nothing for any other."""
    source = disk.find("source")
    if source is None or source.get("protocol") != _RBD:
        return PoolSource()
    login, secret = disk.find(".//auth"), disk.find(".//auth/secret")
    found = source.iterfind("host")
    return PoolSource(
        hosts=tuple(server_text(each.get("name", ""), each.get("port", "")) for each in found),
        name=source.get("name", "").partition("/")[0],
        user="" if login is None else login.get("username", ""),
        secret="" if secret is None else secret.get("uuid") or secret.get("usage") or "",
    )
