"""PCI display and accelerator functions, as sysfs shows them. Virtual functions are left out."""

from __future__ import annotations

import posixpath
from typing import Any

from vgpumgr.helper import pci, sysfs
from vgpumgr.helper.errors import ProbeParts
from vgpumgr.helper.nvidia import vf_files
from vgpumgr.helper.system import System

# PCI Express has links of up to x32.
_WIDEST = 32


def addresses(system: System) -> list[str]:
    """The functions of interest; OSError where one cannot be told."""
    return [
        address
        for address in system.list(sysfs.PCI_DEVICES)
        if pci.kind(system, address).startswith(pci.GPU_CLASSES)
        and not pci.physical(system, address)
    ]


def gather(system: System, parts: ProbeParts) -> list[dict[str, Any]]:
    """Every function of interest; a field that cannot be read is None and named."""
    found = []
    for address in parts.read("devices", system.list, sysfs.PCI_DEVICES) or ():
        kind = parts.read(f"devices {address} class", pci.kind, system, address)
        if kind and kind.startswith(pci.GPU_CLASSES) and not _is_vf(system, address, parts):
            found.append(_device(system, address, kind, parts))
    return found


def _is_vf(system: System, address: str, parts: ProbeParts) -> bool:
    return parts.read(f"devices {address} physfn", pci.physical, system, address) is not None


def one(system: System, address: str, parts: ProbeParts) -> dict[str, Any]:
    """The entry of one function; OSError when not even its class can be read."""
    return _device(system, address, pci.kind(system, address), parts)


def _device(system: System, address: str, kind: str, parts: ProbeParts) -> dict[str, Any]:
    folder = pci.path(address)
    readers = {
        "path": lambda: system.real(folder),
        "vendor": lambda: _hex(system, f"{folder}/vendor"),
        "device": lambda: _hex(system, f"{folder}/device"),
        "subsystem": lambda: _subsystem(system, folder),
        "numa_node": lambda: _numa_node(system, folder),
        "driver": lambda: pci.driver(system, address),
        "driver_override": lambda: pci.current_override(system, address) or None,
        "iommu_group": lambda: sysfs.iommu_group(system, folder),
        "group_devices": lambda: list(pci.group_endpoints(system, address)),
        "boot_vga": lambda: sysfs.optional_text(system, f"{folder}/boot_vga") == "1",
        "reset_methods": lambda: _reset_methods(system, address),
        "siblings": lambda: _siblings(system, address),
        "link": lambda: _link_width(system, address),
        "sriov": lambda: _sriov(system, address, parts),
    }
    fields = {name: parts.read(f"devices {address} {name}", read) for name, read in readers.items()}
    return {"address": address, "class": kind, **fields}


def _hex(system: System, path: str) -> str:
    return sysfs.text(system, path).removeprefix("0x")


def _subsystem(system: System, folder: str) -> str:
    return ":".join(_hex(system, f"{folder}/subsystem_{part}") for part in ("vendor", "device"))


def _numa_node(system: System, folder: str) -> int | None:
    """The kernel says -1 for unknown, and has no file where it was built without NUMA."""
    text = sysfs.optional_text(system, f"{folder}/numa_node")
    return None if text is None or int(text) < 0 else int(text)


def _reset_methods(system: System, address: str) -> list[str]:
    return (sysfs.optional_text(system, f"{pci.path(address)}/reset_method") or "").split()


def _link_width(system: System, address: str) -> dict[str, int] | None:
    """The PCIe link's width in use, and the most that function and slot have together; None
    where sysfs does not tell. The generation is not read: an idle function lowers it on its own.
    """
    now = _width(system, f"{pci.path(address)}/current_link_width")
    most = _width(system, f"{pci.path(address)}/max_link_width")
    if not now or not most:
        return None
    slot = _width(system, f"{posixpath.dirname(system.real(pci.path(address)))}/max_link_width")
    return {"width": now, "most": min(most, slot or most)}


def _width(system: System, path: str) -> int:
    """0 where it is not told; the kernel says 255 where the link is down."""
    text = sysfs.optional_text(system, path) or ""
    return int(text) if text.isdecimal() and int(text) <= _WIDEST else 0


def _siblings(system: System, address: str) -> list[dict[str, Any]]:
    slot = address.rpartition(".")[0]
    others = [f"{slot}.{number}" for number in (1, 2, 3)]
    found = {name: pci.kind(system, name) for name in others if pci.exists(system, name)}
    return [
        {"address": name, "class": kind, "driver": pci.driver(system, name)}
        for name, kind in found.items()
        if name != address and kind.startswith(pci.SIBLING_CLASSES)
    ]


def _sriov(system: System, address: str, parts: ProbeParts) -> dict[str, Any] | None:
    total = sysfs.optional_text(system, f"{pci.path(address)}/sriov_totalvfs")
    if total is None:
        return None
    vfs = [_vf(system, number, vf, parts) for number, vf in pci.numbered_vfs(system, address)]
    return {
        "total": int(total),
        "num": int(sysfs.text(system, f"{pci.path(address)}/sriov_numvfs")),
        "offset": _number(system, f"{pci.path(address)}/sriov_offset"),
        "stride": _number(system, f"{pci.path(address)}/sriov_stride"),
        "vgpu_types": _vgpu_types(system, vfs, parts),
        "vfs": vfs,
    }


def _number(system: System, path: str) -> int | None:
    """None where the kernel has no such file."""
    text = sysfs.optional_text(system, path)
    return None if text is None else int(text)


def _vgpu_types(
    system: System, vfs: list[dict[str, Any]], parts: ProbeParts
) -> list[dict[str, Any]]:
    """What the VFs list, each type once: one VF of each list is asked for the names."""
    asked = {tuple(vf["vgpu"]["creatable"] or ()): vf["address"] for vf in vfs if vf["vgpu"]}
    found: dict[int, str] = {}
    for listed, vf in asked.items():
        if listed:
            found |= parts.read(f"vfs {vf} vgpu", vf_files.names, system, vf) or {}
    return [{"id": number, "name": found[number]} for number in sorted(found)]


def _vf(system: System, number: int, vf: str, parts: ProbeParts) -> dict[str, Any]:
    part = f"vfs {vf}"
    return {
        "number": number,
        "address": vf,
        "driver": parts.read(part, pci.driver, system, vf),
        "iommu_group": parts.read(part, sysfs.iommu_group, system, pci.path(vf)),
        "reset_methods": parts.read(part, _reset_methods, system, vf),
        "vgpu": vf_files.facts(system, vf, parts),
    }
