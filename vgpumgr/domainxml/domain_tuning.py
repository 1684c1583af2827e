"""What a file may say of a domain's machine, disks and NICs, read back from its XML."""

from __future__ import annotations

from lxml import etree

from vgpumgr.model.domain import LIKE_HOST, PASSED_CPU, DiskTuning, NicTuning

_SIGNED = "os/firmware/feature[@name='secure-boot'][@enabled='yes']"
_SECURE_LOADER = "os/loader[@secure='yes']"


def disk_tuning(disk: etree._Element) -> DiskTuning:
    """Of a ``<disk>``; limits that a file cannot say are left out."""
    return DiskTuning(
        cache=_attribute(disk, "driver", "cache"),
        serial=(disk.findtext("serial") or "").strip(),
        iops=_number(disk.findtext("iotune/total_iops_sec")),
        bytes_s=_number(disk.findtext("iotune/total_bytes_sec")),
    )


def boot_order(disk: etree._Element) -> int:
    """Of a ``<disk>``; 0 where its kind says whether the guest boots from it."""
    return _number(_attribute(disk, "boot", "order")) or 0


def nic_tuning(nic: etree._Element) -> NicTuning:
    """Of an ``<interface>``; limits that a file cannot say are left out."""
    return NicTuning(
        model=_attribute(nic, "model", "type") or "virtio",
        vlan=_number(_attribute(nic, "vlan/tag", "id")),
        filter=_attribute(nic, "filterref", "filter"),
        inbound_kib_s=_number(_attribute(nic, "bandwidth/inbound", "average")),
        outbound_kib_s=_number(_attribute(nic, "bandwidth/outbound", "average")),
    )


def has_secure_boot(domain: etree._Element) -> bool:
    """Asked of libvirt, or of the loader that libvirt chose."""
    return domain.find(_SIGNED) is not None or domain.find(_SECURE_LOADER) is not None


def cpu_model(domain: etree._Element) -> str | None:
    """The mode, or the model's name; None where it is emulated, as its CPU follows from that."""
    if domain.get("type") != "kvm":
        return None
    mode = _attribute(domain, "cpu", "mode") or "custom"
    if mode in {PASSED_CPU, LIKE_HOST}:
        return mode
    return (domain.findtext("cpu/model") or "").strip() or PASSED_CPU


def cpu_shares(domain: etree._Element) -> int | None:
    """Its weight; None where none is given."""
    return _number(domain.findtext("cputune/shares"))


def _attribute(element: etree._Element, path: str, name: str) -> str:
    found = element.find(path)
    return "" if found is None else str(found.get(name) or "")


def _number(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdecimal() and int(stripped) else None
