"""The ``probe`` verb: everything about a host in one look. It needs no root and never fails."""

from __future__ import annotations

import platform
from typing import Any

from vgpumgr.helper import VERSION, claims, devices, epoch, kvm, machine, mdevs, nvml
from vgpumgr.helper.call import Call
from vgpumgr.helper.parts import Parts
from vgpumgr.helper.system import System

_MACHINE = {
    "hostname": machine.hostname,
    "boot_id": machine.boot_id,
    "kernel": machine.kernel,
    "qemu": machine.qemu_version,
    "cpus": machine.cpus,
    "memory_mib": machine.memory_mib,
    "iommu": machine.iommu,
    "kvm": kvm.remembered,
    "epoch": epoch.current,
}


def probe(call: Call) -> dict[str, Any]:
    """Every part; one that could not be read is None or empty, and named in ``unknown``."""
    system, parts = call.system, Parts()
    found = {name: parts.read(name, read, system) for name, read in _MACHINE.items()}
    functions = devices.gather(system, parts)
    return {
        "helper": VERSION,
        "python": platform.python_version(),
        "root": system.root(),
        **found,
        "numa": parts.read("numa", machine.numa, system) or [],
        "bridges": parts.read("bridges", machine.bridges, system) or [],
        "devices": functions,
        "parents": mdevs.parents(system, parts),
        "mdevs": mdevs.existing(system, parts),
        "mdevctl": mdevs.definitions(system, parts),
        "nvml": _nvml(system, functions, parts),
        "claims": _claims(system, parts),
        "unknown": parts.unknown,
    }


def _nvml(system: System, functions: list[dict[str, Any]], parts: Parts) -> Any:
    """Only where NVIDIA's driver holds a function: without it the library has nothing to say."""
    if not any(device["driver"] == "nvidia" for device in functions):
        return None
    return parts.read("nvml", nvml.gather, system)


def _claims(system: System, parts: Parts) -> list[claims.Claim]:
    found = []
    for unit, claim, why in parts.read("claims", lambda: list(claims.every(system))) or ():
        if claim is None:
            parts.miss(f"claims {unit}", why)
        else:
            found.append(claim)
    return found
