"""What we read from the XML of storage pools and volumes."""

from __future__ import annotations

from lxml import etree

from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.errors import OutcomeUnknown


def pool_target(xml: str) -> tuple[str, str]:
    """A pool's type and target path (empty for a pool without a directory)."""
    root = _root(xml, "pool")
    return root.get("type", ""), root.findtext("target/path") or ""


def volume_format(xml: str) -> tuple[str, str | None]:
    """A volume's declared format (``raw`` where the pool has no formats) and backing path."""
    root = _root(xml, "volume")
    found = root.find("target/format")
    kind = "raw" if found is None else found.get("type", "raw")
    return kind, root.findtext("backingStore/path")


def _root(xml: str, kind: str) -> etree._Element:
    try:
        return untrusted(xml, kind)
    except ValueError as error:
        raise OutcomeUnknown(f"a storage {kind} cannot be understood", why=str(error)) from error
