"""Storage pools and volumes, read from libvirt's XML of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from vgpumgr.domainxml.disk_source import server_text
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import PoolSource

# What names the place behind a pool: a Ceph pool or volume group, an export, a target or volume.
_PLACES = (("name", ""), ("dir", "path"), ("device", "path"))
# Kinds whose volumes are files or block devices of the host: the devices that a volume group is
# made of are the host's own matter.
_WITHOUT_DEVICES = frozenset({"logical"})
# A pool without a folder: libvirt calls its volumes SOURCE/NAME.
_NETWORK = frozenset({"rbd"})


@dataclass(frozen=True, slots=True)
class PoolPlace:
    """A pool's ``kind`` in libvirt's words, the path below which its volumes are (``path``/NAME;
    empty for none), and where they lie behind libvirt.
    """

    kind: str
    path: str
    source: PoolSource


def pool_place(xml: str) -> PoolPlace:
    """Of a ``<pool>``; ValueError where the text is none."""
    pool = untrusted(xml, "pool")
    kind, source = pool.get("type", ""), _source(pool)
    path = source.name if kind in _NETWORK else pool.findtext("target/path") or ""
    return PoolPlace(kind, path, source)


def _source(pool: etree._Element) -> PoolSource:
    found = pool.find("source")
    if found is None:
        return PoolSource()
    login, secret = found.find("auth"), found.find("auth/secret")
    return PoolSource(
        hosts=tuple(dict.fromkeys(_servers(found))),
        name=":".join(_places(found, pool.get("type", ""))),
        user="" if login is None else login.get("username", ""),
        secret="" if secret is None else secret.get("uuid") or secret.get("usage") or "",
    )


def _servers(source: etree._Element) -> Iterator[str]:
    for host in source.iterfind("host"):
        if name := host.get("name"):
            yield server_text(name, host.get("port", ""))


def _places(source: etree._Element, kind: str) -> Iterator[str]:
    for tag, attribute in _PLACES:
        if tag == "device" and kind in _WITHOUT_DEVICES:
            continue
        for each in source.iterfind(tag):
            if text := (each.get(attribute) if attribute else each.text) or "":
                yield text.strip()


def volume_format(xml: str) -> tuple[str, str | None]:
    """A volume's declared format (``raw`` where its pool has no formats) and backing path.

    ValueError where the text is no ``<volume>``.
    """
    volume = untrusted(xml, "volume")
    found = volume.find("target/format")
    kind = "raw" if found is None else found.get("type", "raw")
    return kind, volume.findtext("backingStore/path")
