"""The rules that forbid giving a PCI function to a guest; a refusal names rule and function.

Linux VFIO owns whole IOMMU groups: every endpoint of one must be on a VFIO driver or on none.
"""

from __future__ import annotations

import errno

from vgpumgr.helper import claims, errors, pci, sysfs, wanted_state
from vgpumgr.helper.devices import mdev_device
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import clients, vf_files
from vgpumgr.helper.system import System


def check(system: System, address: str, companions: tuple[str, ...]) -> None:
    """Every rule, before anything is written."""
    functions = (address, *companions)
    for function in functions:
        if not pci.exists(system, function):
            raise HelperError(errors.NOT_FOUND, f"no PCI function {function}", "not on the bus")
    _check_group(system, functions)
    check_kind(system, address, companions)
    for function in functions:
        _check_function(system, function)
    check_idle(system, address)


def check_kind(system: System, address: str, companions: tuple[str, ...]) -> None:
    """A GPU, and with it the functions of its own board."""
    pci.require_gpu(system, address)
    for each in companions:
        pci.require_sibling(system, each, address)


def check_unclaimed(system: System, unit: str, functions: tuple[str, ...]) -> None:
    """No function may be part of another unit's claim; a damaged claim stops as well."""
    for other in claims.units(system):
        if other == unit or not other.startswith("pci-"):
            continue
        claim = claims.load(system, other)
        taken = (
            sorted(set(wanted_state.addresses(claim["wanted"])) & set(functions)) if claim else []
        )
        if taken:
            raise HelperError(
                errors.CLAIM_MISMATCH, f"{taken[0]} is claimed otherwise", f"by the claim {other}"
            )


def check_idle(system: System, address: str) -> None:
    """No guest may hold the function's group."""
    group = sysfs.iommu_group(system, pci.path(address))
    if sysfs.held(system, group):
        raise HelperError(
            errors.IN_USE,
            f"{address} is in use",
            f"/dev/vfio/{group} is open",
            errno.errorcode[errno.EBUSY],
        )


def _check_group(system: System, functions: tuple[str, ...]) -> None:
    members = pci.group_members(system, functions[0])
    if not members:
        raise HelperError(
            errors.REFUSED,
            f"{functions[0]} has no IOMMU group",
            "the IOMMU is off: switch it on in the firmware and boot with intel_iommu=on "
            "(AMD: on by default)",
        )
    for function in functions:
        if function not in members:
            raise HelperError(
                errors.REFUSED,
                f"{function} is not in the IOMMU group of {functions[0]}",
                f"the group holds {', '.join(members)}",
            )
    others = [name for name in pci.group_endpoints(system, functions[0]) if name not in functions]
    strangers = [name for name in others if _blocks(system, name)]
    if strangers:
        on = ", ".join(f"{name} is on {pci.driver(system, name)}" for name in strangers)
        raise HelperError(
            errors.REFUSED, "group not viable", f"the IOMMU group of {functions[0]}: {on}"
        )


def _blocks(system: System, address: str) -> bool:
    driver = pci.driver(system, address)
    return not (driver is None or driver == "pci-stub" or "vfio" in driver)


def _check_function(system: System, address: str) -> None:
    if pci.lost(system, address):
        raise HelperError(
            errors.REFUSED,
            f"{address} fell off the bus",
            "its configuration space reads all ones: the host needs a restart",
            errno.errorcode[errno.ENODEV],
        )
    if sysfs.optional_text(system, f"{pci.path(address)}/boot_vga") == "1":
        raise HelperError(
            errors.REFUSED, f"{address} is the boot console", "boot_vga is 1: the host shows on it"
        )
    vfs = pci.vf_count(system, address)
    if vfs:
        raise HelperError(
            errors.REFUSED,
            f"{address} has SR-IOV virtual functions",
            f"sriov_numvfs is {vfs}: vfio-pci refuses such a function",
            errno.errorcode[errno.EBUSY],
        )
    _check_empty(system, address)
    if pci.driver(system, address) == "nvidia":
        clients.check_none(system, address)


def _check_empty(system: System, address: str) -> None:
    mdevs = mdev_device.on(system, (address,))
    vgpu = vf_files.current(system, address) if vf_files.has(system, address) else 0
    if mdevs or vgpu:
        what = "mediated devices" if mdevs else "a vGPU"
        why = ", ".join(mdevs) or f"type {vgpu}"
        busy = errno.errorcode[errno.EBUSY]
        raise HelperError(errors.IN_USE, f"{address} carries {what}", why, busy)
