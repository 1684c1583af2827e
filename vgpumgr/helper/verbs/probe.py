"""The ``probe`` verb: everything about a host in one look. It needs no root and never fails.

Whatever the caller knows, everything is read: what is left out is what was told before.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from vgpumgr.helper import VERSION, arguments, claims, digests, errors, fleets, pci
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError, ProbeParts
from vgpumgr.helper.facts import (
    kernel_log,
    libvirt_state,
    machine,
    mdevs,
    nics,
    nvml_facts,
    pci_devices,
)
from vgpumgr.helper.facts.machine_features import machine_features
from vgpumgr.helper.facts.storage_pools import pool_names, stalled
from vgpumgr.helper.nvidia import nvswitch
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import kvm

_MACHINE = {
    "hostname": machine.hostname,
    "boot_id": machine.boot_id,
    "stopping": machine.stopping,
    "kernel": machine.kernel,
    "qemu": machine.qemu_version,
    "cpus": machine.cpus,
    "cpu_model": machine.cpu_model,
    "memory_mib": machine.memory_mib,
    "hugepage_kib": machine.hugepage_kib,
    "iommu": machine.iommu,
    "kvm": kvm.remembered,
    "epochs": fleets.every_epoch,
}
# What changes together is told together; all that is in no part here is ``machine``. Numbers that
# change by themselves (free huge pages) are in a part of their own.
PARTS = {
    "numa": ("numa",),
    "gpus": ("devices", "parents", "nvml", "fabric"),
    "mdevs": ("mdevs", "mdevctl"),
    "claims": ("claims", "epochs"),
    "log": ("xids",),
    "nics": ("nics",),
    "unknown": ("unknown",),
}
_MACHINE_PART, _LIBVIRT = "machine", "libvirt"


def probe(call: Call) -> dict[str, Any]:
    """What the caller does not know already, and the digest of each part."""
    return left_out(whole(call.system), digests.known(call.args, "known"))


def whole(system: System) -> dict[str, Any]:
    """Everything, and the digest of each part. ``libvirt`` is a digest alone: libvirt itself tells
    what it stands for.
    """
    told = look(system)
    state = libvirt_state.fingerprint(system)
    found = {**part_digests(told), **({_LIBVIRT: state} if state else {})}
    return {**told, "digests": found, "same": []}


def left_out(told: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """The whole answer without the parts whose digest is as known, which are named instead."""
    found = told["digests"]
    same = [part for part in (_MACHINE_PART, *PARTS) if known.get(part) == found[part]]
    gone = {name for part in same for name in _names(told, part)}
    return {**{name: told[name] for name in told if name not in gone}, "same": same}


def part_digests(told: Mapping[str, Any]) -> dict[str, str]:
    """The digest of each part of what :func:`look` has found."""
    return {
        part: digests.of({name: told[name] for name in _names(told, part)})
        for part in (_MACHINE_PART, *PARTS)
    }


def _names(told: Mapping[str, Any], part: str) -> tuple[str, ...]:
    others = {"digests", "same", *(name for names in PARTS.values() for name in names)}
    return PARTS.get(part) or tuple(name for name in told if name not in others)


def look(system: System) -> dict[str, Any]:
    """Every part; one that could not be read is None or empty, and named in ``unknown``."""
    parts = ProbeParts()
    found = {name: parts.read(name, read, system) for name, read in _MACHINE.items()}
    functions = pci_devices.gather(system, parts)
    return {
        "helper": VERSION,
        "python": platform.python_version(),
        "root": system.root(),
        **found,
        "numa": parts.read("numa", machine.numa, system) or [],
        "bridges": parts.read("bridges", machine.bridges, system) or [],
        "features": parts.read("features", machine_features, system) or [],
        "storage_pools": parts.read("storage_pools", pool_names, system) or [],
        "stalled_pools": parts.read("stalled_pools", stalled, system) or [],
        "devices": functions,
        "parents": mdevs.parents(system, parts),
        "mdevs": mdevs.existing(system, parts),
        "mdevctl": mdevs.definitions(system, parts),
        "nvml": _nvml(system, functions, parts),
        "fabric": parts.read("fabric", nvswitch.facts, system),
        "claims": _claims(system, parts),
        "nics": parts.read("nics", nics.nics, system) or [],
        "xids": parts.read("xids", kernel_log.xids, system),
        "unknown": parts.unknown,
    }


def gpu_look(call: Call) -> dict[str, Any]:
    """The ``gpu_look`` verb: one GPU as a probe shows it, and what of it could not be read."""
    system, parts, address = call.system, ProbeParts(), arguments.pci(call.args, "gpu")
    if not pci.exists(system, address):
        raise HelperError(errors.NOT_FOUND, f"no PCI function {address}", "not on the bus")
    device = pci_devices.one(system, address, parts)
    answer = _nvml(system, [device], parts)
    entry = answer["gpus"][0] if answer else None
    return {"device": device, "nvml": entry, "unknown": parts.unknown}


def _nvml(system: System, functions: list[dict[str, Any]], parts: ProbeParts) -> Any:
    """Only where NVIDIA's driver holds a function: without it the library has nothing to say."""
    held = [device["address"] for device in functions if device["driver"] == "nvidia"]
    return parts.read("nvml", nvml_facts.gather, system, held, parts) if held else None


def _claims(system: System, parts: ProbeParts) -> list[claims.Claim]:
    found = []
    for unit, claim, why in parts.read("claims", lambda: list(claims.every(system))) or ():
        if claim is None:
            parts.miss(f"claims {unit}", why)
        else:
            found.append(claim)
    return found
