"""Our mark put into the XML of a domain that has none, and taken out again."""

from __future__ import annotations

from lxml import etree

from vgpumgr.domainxml.ownership import NAMESPACE
from vgpumgr.domainxml.template import clean
from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.domain import Ownership

# What libvirt is told to call the namespace.
PREFIX = "v"
_VM, _ALLOCATION = f"{{{NAMESPACE}}}vm", f"{{{NAMESPACE}}}allocation"


def mark_text(mark: Ownership) -> str:
    """The mark as an element by itself; ValueError for text that XML cannot carry."""
    return _text(mark, _VM, _ALLOCATION)


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
    metadata.append(untrusted(mark, _VM))
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
        for mark in metadata.findall(_VM):
            metadata.remove(mark)


def _after_head(domain: etree._Element) -> int:
    """Behind what names the domain, as libvirt prints it."""
    head = {"name", "uuid", "genid", "title", "description"}
    return sum(each.tag in head for each in domain)
