"""The ``examine`` verb: how the host is set up. It needs no root, changes nothing, never fails."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import VERSION
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import ProbeParts
from vgpumgr.helper.facts import host_setup, pci_devices

_READERS = {
    "installed": host_setup.installed,
    "kernel_line": host_setup.kernel_line,
    "acpi_tables": host_setup.acpi_tables,
    "iommus": host_setup.iommus,
    "iommu_groups": host_setup.iommu_groups,
    "intel_ecap": host_setup.intel_ecap,
    "remapping": host_setup.remapping,
    "unsafe_interrupts": host_setup.unsafe_interrupts,
    "modules": host_setup.modules,
    "available": host_setup.available,
    "blacklisted": host_setup.blacklisted,
    "guest_of": host_setup.guest_of,
    "nested": host_setup.nested,
    "sudo_rules": host_setup.sudo_rules,
    "units": host_setup.units,
    "pools_at_boot": host_setup.pools_at_boot,
    "uefi": host_setup.uefi,
    "secure_boot": host_setup.secure_boot,
    "synchronised": lambda system: system.synchronised(),
}


def examine(call: Call) -> dict[str, Any]:
    """Every part; one that could not be read is None, and named in ``unknown``."""
    system, parts = call.system, ProbeParts()
    # First, because the caller sets it against his own clock around the whole call.
    now = system.now()
    found = {name: parts.read(name, read, system) for name, read in _READERS.items()}
    gpus = parts.read("bars", pci_devices.addresses, system) or []
    return {
        "helper": VERSION,
        "now": now,
        "root": system.root(),
        "user": system.user(),
        **found,
        "bars": host_setup.bars(system, gpus, parts),
        "unknown": parts.unknown,
    }
