"""What a guest's operating system asks for, in its domain: clock, Hyper-V features, libosinfo's id.

The Hyper-V interfaces are KVM's: under emulation there are none, and Windows runs without them.
"""

from __future__ import annotations

from lxml import etree

from vgpumgr.domainxml.libvirt_acceptance import knows
from vgpumgr.domainxml.xml_tree import XmlTree
from vgpumgr.model.guest_system import GuestSystem, HypervFeature

_OSINFO = "http://libosinfo.org/xmlns/libvirt/domain/1.0"
_ROOT, _OS = f"{{{_OSINFO}}}libosinfo", f"{{{_OSINFO}}}os"
# Features that came later than the rest: by their key of libvirt_acceptance.
_GATED = {"avic": "hyperv avic"}


def write_system(tree: XmlTree, system: GuestSystem, *, kvm: bool, libvirt: str) -> None:
    """Fill in what the system asks for, as far as that libvirt knows it."""
    metadata = tree.root.find("metadata")
    assert metadata is not None, "the template has its own mark there"
    root = etree.SubElement(metadata, _ROOT, nsmap={"libosinfo": _OSINFO})
    etree.SubElement(root, _OS, id=system.id)
    if system.localtime:
        tree.set("clock/@offset", "localtime")
    features = [each for each in system.hyperv if _is_known(each, libvirt)]
    if not kvm or not features:
        return
    for timer in system.timers:
        tree.add("clock", "timer", name=timer, present="yes")
    tree.add("features", "hyperv", mode="custom")
    for each in features:
        tree.add("features/hyperv", each.name, state="on", **each.attributes)


def _is_known(feature: HypervFeature, libvirt: str) -> bool:
    key = _GATED.get(feature.name)
    return key is None or knows(libvirt, key)


def system_id(domain: etree._Element) -> str:
    """libosinfo's id of a domain's guest; empty where it has none."""
    found = domain.find(f"metadata/{_ROOT}/{_OS}")
    return "" if found is None else str(found.get("id") or "")
