"""PCI display and accelerator functions, as sysfs shows them. Virtual functions are left out."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import pci, sysfs
from vgpumgr.helper.parts import Parts
from vgpumgr.helper.system import System

# PCI classes: 03 display controllers; 1200 processing accelerators.
_CLASSES = ("03", "1200")
_VF_LINK = "virtfn"


def gather(system: System, parts: Parts) -> list[dict[str, Any]]:
    """Every function of interest; a field that cannot be read is None and named."""
    found = []
    for address in parts.read("devices", system.list, sysfs.PCI_DEVICES) or ():
        kind = parts.read(f"devices {address} class", pci.kind, system, address)
        if kind and kind.startswith(_CLASSES) and not _is_vf(system, address, parts):
            found.append(_device(system, address, kind, parts))
    return found


def _is_vf(system: System, address: str, parts: Parts) -> bool:
    link = parts.read(f"devices {address} physfn", system.link, f"{pci.path(address)}/physfn")
    return link is not None


def _device(system: System, address: str, kind: str, parts: Parts) -> dict[str, Any]:
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
        "reset_methods": lambda: _words(system, f"{folder}/reset_method"),
        "sriov": lambda: _sriov(system, folder),
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


def _words(system: System, path: str) -> list[str]:
    return (sysfs.optional_text(system, path) or "").split()


def _sriov(system: System, folder: str) -> dict[str, Any] | None:
    total = sysfs.optional_text(system, f"{folder}/sriov_totalvfs")
    if total is None:
        return None
    numbers = sorted(
        int(name[len(_VF_LINK) :]) for name in system.list(folder) if name.startswith(_VF_LINK)
    )
    links = (sysfs.target(system, f"{folder}/{_VF_LINK}{number}") for number in numbers)
    return {
        "total": int(total),
        "num": int(sysfs.text(system, f"{folder}/sriov_numvfs")),
        "vfs": [address for address in links if address],
    }
