"""The ``examine`` verb: how the host is set up. It needs no root, changes nothing, never fails."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import VERSION
from vgpumgr.helper.call import Call
from vgpumgr.helper.facts import access, devices, firmware, setup
from vgpumgr.helper.parts import Parts

_READERS = {
    "installed": access.installed,
    "kernel_line": setup.kernel_line,
    "acpi_tables": setup.acpi_tables,
    "iommus": setup.iommus,
    "iommu_groups": setup.iommu_groups,
    "intel_ecap": setup.intel_ecap,
    "remapping": setup.remapping,
    "unsafe_interrupts": setup.unsafe_interrupts,
    "modules": setup.modules,
    "available": setup.available,
    "blacklisted": setup.blacklisted,
    "guest_of": setup.guest_of,
    "nested": setup.nested,
    "sudo_rules": access.sudo_rules,
    "units": access.units,
    "pools_at_boot": access.pools_at_boot,
    "uefi": firmware.uefi,
    "secure_boot": firmware.secure_boot,
    "synchronised": lambda system: system.synchronised(),
}


def examine(call: Call) -> dict[str, Any]:
    """Every part; one that could not be read is None, and named in ``unknown``."""
    system, parts = call.system, Parts()
    # First, because the caller sets it against his own clock around the whole call.
    now = system.now()
    found = {name: parts.read(name, read, system) for name, read in _READERS.items()}
    gpus = parts.read("bars", devices.addresses, system) or []
    return {
        "helper": VERSION,
        "now": now,
        "root": system.root(),
        "user": system.user(),
        **found,
        "bars": firmware.bars(system, gpus, parts),
        "unknown": parts.unknown,
    }
