"""Devices that a VM has where its file says so: their XML, and a domain that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lxml import etree

from vgpumgr.domainxml.libvirt_features import knows
from vgpumgr.domainxml.xml_tree import XmlTree, template


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalDevice:
    """The device of a switch of VmSpec, the ``key``, whose template has the same name.

    A domain has it where it has an element at ``path``. ``since`` names for a tag of the template
    the feature of libvirt that it takes: what a host's libvirt does not know is left out.
    """

    key: str
    path: str
    since: Mapping[str, str] = field(default_factory=dict)


_DEVICES = (
    OptionalDevice(key="agent", path="devices/channel/target[@name='org.qemu.guest_agent.0']"),
    OptionalDevice(key="audio", path="devices/sound", since={"audio": "audio backend"}),
)
KEYS = tuple(each.key for each in _DEVICES)
"""The switches of VmSpec that are a device each."""


def add(tree: XmlTree, keys: Iterable[str], libvirt: str) -> None:
    """Add the devices of these keys to a domain, as far as that libvirt knows them.

    Raises:
        ValueError: a key is none of :data:`KEYS`.
    """
    wanted = set(keys)
    if unknown := wanted.difference(KEYS):
        raise ValueError(f"not optional devices: {sorted(unknown)}")
    for device in _DEVICES:
        if device.key in wanted:
            for element in template(f"domain/{device.key}").root:
                feature = device.since.get(str(element.tag), "")
                if not feature or knows(libvirt, feature):
                    tree.append("devices", XmlTree(element))


def found(domain: etree._Element) -> tuple[str, ...]:
    """The keys of the devices that a domain has."""
    return tuple(each.key for each in _DEVICES if domain.find(each.path) is not None)
