"""A disk that a running domain is given for a while, as XML of its own and in the live domain."""

from __future__ import annotations

from lxml import etree

from vgpumgr.domainxml.disk_source import source_path
from vgpumgr.domainxml.plan_xml import disk_element
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import DomainDisk


def plugged_disk(plan: DomainDisk) -> str:
    """The ``<disk>`` of a plan."""
    return disk_element(plan).text()


def disk_of(xml: str) -> tuple[str, str]:
    """What the guest calls a ``<disk>``, and its path; ValueError where it is none."""
    disk = untrusted(xml, "disk")
    target = disk.find("target")
    return "" if target is None else target.get("dev", ""), source_path(disk.find("source"))


def disk_text(domain_xml: str, target: str) -> str:
    """The ``<disk>`` of that target in a domain; empty where it has none."""
    found = _named(untrusted(domain_xml, "domain"), target)
    return "" if found is None else etree.tostring(found, encoding="unicode")


def with_disk(domain_xml: str, disk_xml: str) -> str:
    """The same domain with one disk more."""
    domain = untrusted(domain_xml, "domain")
    home = domain.find("devices")
    assert home is not None, "a domain has devices"
    home.append(untrusted(disk_xml, "disk"))
    return etree.tostring(domain, encoding="unicode")


def without_disk(domain_xml: str, target: str) -> str:
    """The same domain without the disk of that target, if it has one."""
    domain = untrusted(domain_xml, "domain")
    found = _named(domain, target)
    home = None if found is None else found.getparent()
    if found is not None and home is not None:
        home.remove(found)
    return etree.tostring(domain, encoding="unicode")


def _named(domain: etree._Element, target: str) -> etree._Element | None:
    for disk in domain.iterfind("devices/disk"):
        named = disk.find("target")
        if named is not None and named.get("dev") == target:
            return disk
    return None
