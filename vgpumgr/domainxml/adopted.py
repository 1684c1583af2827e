"""The definition of an adopted VM: as it came, but for our mark and what was changed through us."""

from __future__ import annotations

from lxml import etree

from vgpumgr.domainxml.marked import mark_text, with_mark
from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.domain import Ownership


def adopted(
    xml: str, mark: Ownership, *, memory_mib: int | None = None, vcpus: int | None = None
) -> str:
    """The domain with our mark; memory and vCPUs are written only where they are given.

    ValueError where the definition spreads what is to change over sockets or NUMA cells.
    """
    domain = untrusted(with_mark(xml, mark_text(mark)), "domain")
    if memory_mib is not None:
        _refuse(domain, "cpu/numa", "memory lies in NUMA cells of the guest")
        for tag in ("memory", "currentMemory"):
            for element in domain.findall(tag):
                element.set("unit", "KiB")
                element.text = str(memory_mib * 1024)
    if vcpus is not None:
        _refuse(domain, "cpu/topology", "vCPUs lie in a topology of sockets and cores")
        _refuse(domain, "cputune/vcpupin", "vCPUs are pinned one by one")
        vcpu = domain.find("vcpu")
        if vcpu is None:
            raise ValueError("its definition has no vCPUs")
        vcpu.attrib.pop("current", "")
        vcpu.text = str(vcpus)
    return etree.tostring(domain, encoding="unicode") + "\n"


def _refuse(domain: etree._Element, path: str, what: str) -> None:
    if domain.find(path) is not None:
        raise ValueError(f"its {what}")
