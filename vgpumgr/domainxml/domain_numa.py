"""Host CPUs and NUMA nodes in a domain's XML: pinning, where memory comes from, guest cells.

A domain on one node keeps a guest without NUMA. One that spans several gets a cell of its own for
each: vCPUs and memory split, each cell's memory from its node and its vCPUs on that node's CPUs.
``preferred`` names one node at a time, which is all that libvirt takes in that mode. Whoever has no
pin of its own (QEMU's own threads among them) runs on the CPUs in ``<vcpu cpuset>``.
Source: libvirt's formatdomain documentation (CPU Tuning, NUMA Node Tuning, Guest NUMA topology).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from lxml import etree

from vgpumgr.model.domain import NumaSeat, NumaShare
from vgpumgr.model.formats import ranges


def seat_domain(domain: etree._Element, seat: NumaSeat | None, cpus: Sequence[int]) -> None:
    """Bind a domain that is bound nowhere. Guest cells that it has stay as they are.

    Cells beyond the seat's shares go round them; a domain without cells whose seat has several
    shares keeps its memory unbound. Raises ValueError for a domain without vCPUs, and where
    ``cpus`` are not one per vCPU.
    """
    vcpu = domain.find("vcpu")
    if vcpu is None:
        raise ValueError("a domain without vCPUs")
    count = int(vcpu.text or "1")
    if cpus and len(cpus) != count:
        raise ValueError(f"{len(cpus)} host CPUs for {count} vCPUs")
    shares = seat.shares if seat else ()
    placed = [(cell, shares[at % len(shares)]) for at, cell in enumerate(_cells(domain)) if shares]
    if seat and seat.cpus:
        vcpu.set("cpuset", ranges(seat.cpus))
    pins = {each: ranges([cpu]) for each, cpu in enumerate(cpus)}
    if not pins and len(shares) > 1:
        pins = {each: ranges(share.cpus) for cell, share in placed for each in cell if share.cpus}
    if pins:
        cputune = _cputune(domain, vcpu)
        for number in sorted(pins):
            etree.SubElement(cputune, "vcpupin", vcpu=str(number), cpuset=pins[number])
    if seat and (len(shares) == 1 or placed):
        before = domain.find("cputune")
        numatune = _numatune(seat, [share for _, share in placed])
        (vcpu if before is None else before).addnext(numatune)


def unseat_domain(domain: etree._Element) -> None:
    """Take out host CPUs and nodes: they are numbers of one host; other tuning stays."""
    for each in domain.findall("numatune"):
        domain.remove(each)
    for tuning in domain.findall("cputune"):
        for each in tuning.findall("*[@cpuset]"):
            tuning.remove(each)
    for vcpu in domain.findall("vcpu"):
        vcpu.attrib.pop("cpuset", "")


def add_cells(domain: etree._Element, shares: Sequence[NumaShare]) -> None:
    """Guest cells for a seat of several shares, and sockets that lie in one cell each.

    The guest sees as few sockets as that allows.
    """
    cpu = domain.find("cpu")
    topology = domain.find("cpu/topology")
    assert cpu is not None and topology is not None, "the template has both"
    total = sum(len(share.vcpus) for share in shares)
    whole = all(_is_run(share.vcpus) for share in shares)
    cores = gcd(*(len(share.vcpus) for share in shares)) if whole else 1
    topology.set("sockets", str(total // cores))
    topology.set("cores", str(cores))
    numa = etree.SubElement(cpu, "numa")
    for number, share in enumerate(shares):
        etree.SubElement(
            numa,
            "cell",
            id=str(number),
            cpus=ranges(share.vcpus),
            memory=str(share.memory_mib * 1024),
            unit="KiB",
        )


def numbers_of(text: str) -> frozenset[int]:
    """The numbers in libvirt's ``0-3,^2,8`` (all but 2); ValueError for other text."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().removeprefix("^").partition("-")
        named = range(int(first), int(last or first) + 1)
        if part.strip().startswith("^"):
            found.difference_update(named)
        else:
            found.update(named)
    return frozenset(found)


def _is_run(numbers: Sequence[int]) -> bool:
    return bool(numbers) and max(numbers) - min(numbers) + 1 == len(numbers)


def _cells(domain: etree._Element) -> list[frozenset[int]]:
    """The vCPUs of each guest cell."""
    return [numbers_of(each.get("cpus") or "") for each in domain.iterfind("cpu/numa/cell[@cpus]")]


def _numatune(seat: NumaSeat, cells: Sequence[NumaShare]) -> etree._Element:
    mode = "strict" if seat.strict else "preferred"
    numatune = etree.Element("numatune")
    if not cells:
        etree.SubElement(numatune, "memory", mode=mode, nodeset=str(seat.shares[0].node))
    for number, share in enumerate(cells):
        etree.SubElement(
            numatune, "memnode", cellid=str(number), mode=mode, nodeset=str(share.node)
        )
    return numatune


def _cputune(domain: etree._Element, vcpu: etree._Element) -> etree._Element:
    found = domain.find("cputune")
    if found is None:
        found = etree.Element("cputune")
        vcpu.addnext(found)
    return found
