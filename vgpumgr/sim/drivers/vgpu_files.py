"""The files of NVIDIA's driver on what carries a vGPU: an mdev (§3), or a VF by itself (§5).

Errno from nvidia-vgpu-vfio as docs/driver-behaviour.md has it. How a time-sliced vGPU without
GPU instance or placement id reads there was captured on mdevs only: ``Not Applicable``.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from vgpumgr.sim.linux.file_tree import File, refusal
from vgpumgr.sim.nvidia.gpu_health import CREATE, Failures
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvidia.vgpus import Vgpu

# The plugin process of a stopped VM lives on a little; until then nothing is destroyed.
PLUGIN_ENDS_S = 1.0

_HEADER = "ID    : vGPU Name\n"
_MOST_PARAMS = 1024
_MOST_ID = 0xFFFFFFFF


class Users(Protocol):
    """What the kernel knows of those who use vGPUs."""

    @property
    def failures(self) -> Failures:
        """Calls that fail now."""

    def in_use(self, device: str) -> bool:
        """Has a VM the carrier open?"""

    def is_ending(self, carrier: str) -> bool:
        """Is the plugin of a stopped VM still there?"""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A VF, or an mdev by its UUID, of a GPU."""

    gpu: NvidiaGpu
    name: str
    users: Users

    def vgpu(self) -> Vgpu:
        """Its vGPU; ENXIO where there is none."""
        vgpu = self.gpu.vgpu(self.name)
        if vgpu is None:
            raise refusal(errno.ENXIO)
        return vgpu

    def check_idle(self) -> None:
        """EPERM while a VM has it open."""
        if self.users.in_use(self.name):
            raise refusal(errno.EPERM)

    def create(self, type_id: int) -> None:
        """EIO is all that user space sees of the resource manager's reasons."""
        if self.users.failures.take(self.gpu.address, CREATE):
            raise refusal(errno.EIO)
        self.gpu.create(self.name, type_id)

    def destroy(self) -> None:
        """EPERM while a VM has it open, EBUSY while the plugin of one that stopped lives on."""
        self.check_idle()
        if self.users.is_ending(self.name):
            raise refusal(errno.EBUSY)
        self.gpu.destroy(self.name)

    # Each of the files.

    def creatable(self) -> str:
        """One line for each type that may be made now; none once there is a vGPU."""
        free = self.gpu.vgpu(self.name) is None
        types = self.gpu.creatable(self.name) if free else ()
        return _HEADER + "".join(f"{each.id:<5} : {each.name}\n" for each in types)

    def current(self) -> str:
        """The type's number, 0 for none."""
        vgpu = self.gpu.vgpu(self.name)
        return f"{vgpu.type_id if vgpu else 0}\n"

    def set_current(self, text: str) -> None:
        """A number makes a vGPU of that type, 0 destroys the one there is."""
        wanted, there = _number(text), self.gpu.vgpu(self.name) is not None
        if bool(wanted) == there:
            raise refusal(errno.EPERM)
        if wanted:
            self.create(wanted)
            return
        self.destroy()

    def instance(self) -> str:
        """The GPU instance it lies in."""
        return _told(self.vgpu().instance_id)

    def placement(self) -> str:
        """Where it lies."""
        return _told(self.vgpu().placement_id)

    def set_placement(self, text: str) -> None:
        """EINVAL: no such place for the type; EBUSY: taken."""
        self.vgpu()
        self.check_idle()
        self.gpu.place(self.name, _number(text))

    def params(self) -> str:
        """The parameters as one line."""
        return ", ".join(f"{key}={value}" for key, value in self.vgpu().params.items()) + "\n"

    def set_params(self, text: str) -> None:
        """Replaces them all: a single space clears; they apply when the VM starts next."""
        if len(text) > _MOST_PARAMS:
            raise refusal(errno.E2BIG)
        vgpu = self.vgpu()
        self.check_idle()
        vgpu.params.clear()
        vgpu.params.update(_parameters(text))

    def vm_name(self) -> str:
        """The VM that uses it; an empty line while there is none."""
        return f"{self.vgpu().vm}\n"


def mdev_files(carrier: Carrier) -> Mapping[str, File]:
    """``nvidia/`` of an mdev, by the path below it."""
    return {
        "nvidia/vm_name": File(carrier.vm_name),
        "nvidia/vgpu_params": File(carrier.params, carrier.set_params),
        "nvidia/placement_id": File(carrier.placement),
    }


def vf_files(carrier: Carrier) -> Mapping[str, File]:
    """``nvidia/`` of a VF under the vendor-specific framework."""
    return {
        "nvidia/creatable_vgpu_types": File(carrier.creatable),
        "nvidia/current_vgpu_type": File(carrier.current, carrier.set_current),
        "nvidia/gpu_instance_id": File(carrier.instance),
        "nvidia/placement_id": File(carrier.placement, carrier.set_placement),
        "nvidia/vgpu_params": File(carrier.params, carrier.set_params),
    }


def _number(text: str) -> int:
    """As kstrtouint with base 10."""
    digits = text.removesuffix("\n")
    if not digits.isascii() or not digits.isdigit():
        raise refusal(errno.EINVAL)
    if int(digits) > _MOST_ID:
        raise refusal(errno.ERANGE)
    return int(digits)


def _told(value: int | None) -> str:
    return "Not Applicable\n" if value is None else f"{value}\n"


def _parameters(text: str) -> dict[str, str]:
    parts = (part.strip().partition("=") for part in text.split(",") if part.strip())
    return {key: value for key, _, value in parts}
