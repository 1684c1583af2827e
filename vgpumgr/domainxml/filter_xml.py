"""Network filters of ours as libvirt's XML, and the ones that a domain names."""

from __future__ import annotations

from lxml import etree

from vgpumgr.domainxml.xml_tree import template, untrusted
from vgpumgr.model.port_rules import CLEAN_TRAFFIC, PortFilter, PortRule

_FAMILIES = ("", "-ipv6")


def port_filter(wanted: PortFilter) -> str:
    """``<filter>``: the guest sends what it likes, and gets the answers to that, DHCP's offers,
    what IPv6 needs to find neighbours, and what is allowed; nothing else.
    """
    tree = template("filter/ports")
    tree.set("@name", wanted.name)
    if wanted.clean:
        tree.add("", "filterref", filter=CLEAN_TRAFFIC)
    root = tree.root
    for rule in wanted.allow:
        for family in _FAMILIES:
            _accept(root, rule, family)
    for family in _FAMILIES:
        rule_of = etree.SubElement(root, "rule", action="accept", direction="out", priority="500")
        etree.SubElement(rule_of, f"all{family}")
    for family in _FAMILIES:
        rest = etree.SubElement(root, "rule", action="drop", direction="in", priority="900")
        etree.SubElement(rest, f"all{family}")
    return tree.text()


def _accept(root: etree._Element, rule: PortRule, family: str) -> None:
    made = etree.SubElement(root, "rule", action="accept", direction="in", priority="500")
    if rule.protocol == "icmp":
        if family:
            root.remove(made)  # the template lets all of ICMPv6 in
        else:
            etree.SubElement(made, "icmp")
        return
    ports = {"dstportstart": str(rule.first), "dstportend": str(rule.last)}
    etree.SubElement(made, f"{rule.protocol}{family}", ports)


def own_filters(xml: str) -> tuple[PortFilter, ...]:
    """The filters of ours that a domain's NICs name."""
    names = (each.get("filter", "") for each in _references(xml))
    found = (PortFilter.named(name) for name in dict.fromkeys(names))
    return tuple(each for each in found if each is not None)


def _references(xml: str) -> list[etree._Element]:
    return untrusted(xml, "domain").findall("devices/interface/filterref")
