"""What is to be typed where no command of ours does it alone."""

from __future__ import annotations

from vgpumgr.model.gpu import Framework
from vgpumgr.model.vm import Allocation


def defined_anew(host: str, vm: str) -> str:
    """How a definition is made as the ledger has it."""
    return (
        f"vgpumgr vm stop {vm}; on {host}: virsh undefine --keep-nvram {vm}; vgpumgr vm start {vm}"
    )


def by_hand(host: str, allocation: Allocation) -> str:
    """How the device of an allocation is taken away on its host, with its VM off."""
    device = allocation.device
    match Framework(allocation.framework):
        case Framework.MDEV:
            command = mdev_away(device)
        case Framework.VFIO_VF:
            command = vgpu_away(device)
        case _:
            name = device.replace(":", "_").replace(".", "_")
            command = f"virsh nodedev-reattach pci_{name}"
    return f"vgpumgr vm stop {allocation.vm}; on {host}: {command}"


def mdev_away(uuid: str) -> str:
    """Removes an mdev; needs neither mdevctl nor a definition of it."""
    return f"echo 1 > /sys/bus/mdev/devices/{uuid}/remove"


def vgpu_away(vf: str) -> str:
    """Ends the vGPU on a VF."""
    return f"echo 0 > /sys/bus/pci/devices/{vf}/nvidia/current_vgpu_type"
