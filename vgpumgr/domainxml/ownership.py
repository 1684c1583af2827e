"""The mark of ownership in a domain's ``<metadata>``: read, written, added and removed."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from vgpumgr.domainxml.xml_tree import XmlTree, clean, untrusted
from vgpumgr.model.domain import Ownership

NAMESPACE = "https://vgpumgr.dev/v1"
_VM = f"metadata/{{{NAMESPACE}}}vm"
_ALLOCATION = f"{{{NAMESPACE}}}allocation"
_LABEL = f"{{{NAMESPACE}}}label"


def write(tree: XmlTree, ownership: Ownership, labels: Mapping[str, str]) -> None:
    """Fill the mark in a domain template; labels travel with it for people who read the XML."""
    tree.set(f"{_VM}/@fleet", ownership.fleet)
    tree.set(f"{_VM}/@name", ownership.vm)
    tree.set(f"{_VM}/@id", ownership.vm_id)
    tree.set(f"{_VM}/@generation", ownership.generation)
    if ownership.uuid:
        tree.set(f"{_VM}/@uuid", ownership.uuid)
    for allocation in ownership.allocations:
        tree.add(_VM, _ALLOCATION, id=allocation)
    for name in sorted(labels):
        tree.add(_VM, _LABEL, name=name, value=labels[name])


def rewrite(domain: etree._Element, ownership: Ownership) -> None:
    """Put another mark in place of ours; labels stay. ValueError where there is none of ours."""
    mark = domain.find(_VM)
    if mark is None:
        raise ValueError("the domain does not carry our mark")
    mark.set("fleet", clean(ownership.fleet))
    mark.set("name", clean(ownership.vm))
    mark.set("id", clean(ownership.vm_id))
    mark.set("generation", clean(ownership.generation))
    mark.attrib.pop("uuid", "")
    if ownership.uuid:
        mark.set("uuid", clean(ownership.uuid))
    for each in mark.findall(_ALLOCATION):
        mark.remove(each)
    for position, allocation in enumerate(ownership.allocations):
        mark.insert(position, etree.Element(_ALLOCATION, id=clean(allocation)))


def read(domain: etree._Element) -> Ownership | None:
    """The mark of a parsed domain; None where there is none, or none that makes sense."""
    mark = domain.find(_VM)
    if mark is None:
        return None
    try:
        return Ownership(
            fleet=_value(mark, "fleet"),
            vm=_value(mark, "name"),
            vm_id=_value(mark, "id"),
            generation=int(_value(mark, "generation")),
            allocations=tuple(_value(child, "id") for child in mark.iterfind(_ALLOCATION)),
            uuid=mark.get("uuid", ""),
        )
    except ValueError:
        return None  # a mark we did not write: such a domain is foreign, never ours to touch


def _value(element: etree._Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise ValueError(f"a mark without {name}")
    return value


# What libvirt is told to call the namespace.
PREFIX = "v"
_VM_TAG, _ALLOCATION_TAG = f"{{{NAMESPACE}}}vm", f"{{{NAMESPACE}}}allocation"


def mark_text(mark: Ownership) -> str:
    """The mark as an element by itself; ValueError for text that XML cannot carry."""
    return _text(mark, _VM_TAG, _ALLOCATION_TAG)


def bare_mark(mark: Ownership) -> str:
    """The same without its namespace: ``virDomainSetMetadata`` puts that in, and refuses one that
    is there.
    """
    return _text(mark, "vm", "allocation")


def _text(mark: Ownership, vm: str, allocation: str) -> str:
    element = etree.Element(
        vm,
        {
            "fleet": clean(mark.fleet),
            "name": clean(mark.vm),
            "id": clean(mark.vm_id),
            "generation": clean(mark.generation),
            **({"uuid": clean(mark.uuid)} if mark.uuid else {}),
        },
        nsmap={PREFIX: NAMESPACE} if vm.startswith("{") else {},
    )
    for each in mark.allocations:
        etree.SubElement(element, allocation, id=clean(each))
    return etree.tostring(element, encoding="unicode")


def with_mark(xml: str, mark: str) -> str:
    """The domain with this mark (as ``mark_text`` writes it), and no other of ours."""
    domain = untrusted(xml, "domain")
    _unmark(domain)
    metadata = domain.find("metadata")
    if metadata is None:
        metadata = etree.Element("metadata")
        domain.insert(_after_head(domain), metadata)
    metadata.append(untrusted(mark, _VM_TAG))
    return etree.tostring(domain, encoding="unicode") + "\n"


def without_mark(xml: str) -> str:
    """The domain without our mark; metadata that held nothing else stays, empty, as libvirt
    leaves it.
    """
    domain = untrusted(xml, "domain")
    _unmark(domain)
    return etree.tostring(domain, encoding="unicode") + "\n"


def _unmark(domain: etree._Element) -> None:
    for metadata in domain.findall("metadata"):
        for mark in metadata.findall(_VM_TAG):
            metadata.remove(mark)


def _after_head(domain: etree._Element) -> int:
    """Behind what names the domain, as libvirt prints it."""
    head = {"name", "uuid", "genid", "title", "description"}
    return sum(each.tag in head for each in domain)
