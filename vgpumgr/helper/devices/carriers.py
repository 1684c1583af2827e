"""The vGPUs and guests on a GPU's functions, while which no change of the GPU is allowed."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import claims, errors, pci, sysfs, wanted_state
from vgpumgr.helper.devices import mdev_device
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_files
from vgpumgr.helper.system import System


def require_no_vgpu(system: System, gpu: str, doing: str) -> None:
    """Refuse ``in-use`` while a vGPU, mdev or VF type, is on the GPU or its VFs."""
    _refuse(gpu, doing, vgpus(system, gpu))


def require_free_vfs(system: System, gpu: str, doing: str) -> None:
    """Refuse ``in-use`` while any VF carries a vGPU, is in a guest's hands or is claimed."""
    vfs = pci.vfs(system, gpu)
    groups = [(vf, sysfs.iommu_group(system, pci.path(vf))) for vf in vfs]
    guests = [f"{vf} is open in a guest" for vf, group in groups if sysfs.held(system, group)]
    _refuse(gpu, doing, [*vgpus(system, gpu), *guests, *_claimed(system, vfs)])


def vgpus(system: System, gpu: str) -> list[str]:
    """Every vGPU on the GPU or its VFs, in words."""
    vfs = pci.vfs(system, gpu)
    types = [(vf, vf_files.current(system, vf)) for vf in vfs if vf_files.has(system, vf)]
    mdevs = mdev_device.on(system, (gpu, *vfs))
    on_vfs = [f"{vf} carries a vGPU of type {number}" for vf, number in types if number]
    return [*on_vfs, *(f"mdev {uuid}" for uuid in mdevs)]


def lives_on(system: System, want: dict[str, Any], gpu: str) -> bool:
    """Whether what a claim wants is on the GPU, given whole or by a VF, be it on or off now."""
    instance = wanted_state.instance(want)
    if instance and instance["gpu"] == gpu:
        return True
    on = pci.vfs(system, gpu) if pci.exists(system, gpu) else ()
    functions = {gpu, *on, *pci.vf_addresses(system, gpu)}
    return bool(functions & set(wanted_state.carriers(want)))


def _claimed(system: System, vfs: list[str]) -> list[str]:
    """A claim outlives the device it is about; one that cannot be read stops."""
    loaded = (claims.load(system, unit) for unit in claims.units(system))
    return [
        f"{claim['unit']} is claimed for {claim['vm']}"
        for claim in loaded
        if claim and set(wanted_state.carriers(claim["wanted"])) & set(vfs)
    ]


def _refuse(gpu: str, doing: str, holders: list[str]) -> None:
    if holders:
        message = f"{gpu} is in use: {doing}"
        raise HelperError(errors.IN_USE, message, "; ".join(holders), "EBUSY")
