"""The simulated host that NVML is asked about, and the objects behind its handles.

A handle is a number: the GPU's bus in the lowest byte, above it a GPU instance's id + 1, above
that a compute instance's id + 1. NVML's number of a vGPU has the bus in its lowest byte as
well.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import pynvml

from vgpumgr.catalog import VgpuType
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvidia.gpu_activity import GpuActivity
from vgpumgr.sim.nvidia.mig_grid import SimComputeInstance, SimGpuInstance
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvidia.vgpus import Vgpu
from vgpumgr.sim.nvml.c_arguments import Failed, number

HOST: ContextVar[Kernel] = ContextVar("simulated host")


def gpus() -> list[NvidiaGpu]:
    """The GPUs that NVIDIA's driver holds now, by bus."""
    kernel = HOST.get()
    functions = kernel.pci.functions
    return [
        gpu
        for address, gpu in sorted(kernel.nvidia.items())
        if functions[address].driver == "nvidia"
    ]


def bus(gpu: NvidiaGpu) -> int:
    """The number of its PCI bus."""
    return int(gpu.address.split(":")[1], 16)


def gpu(handle: Any) -> NvidiaGpu:
    """The GPU of a handle of any kind; GPU_IS_LOST when it is gone, or not the driver's now."""
    found = next((each for each in gpus() if bus(each) == number(handle) & 0xFF), None)
    if found is None or found.lost:
        raise Failed(pynvml.NVML_ERROR_GPU_IS_LOST)
    return found


def activity(handle: Any) -> GpuActivity:
    """What the GPU of a handle does; GPU_IS_LOST when it is gone."""
    return HOST.get().activities[gpu(handle).address]


def driver_branch() -> int:
    """550 of 550.54.16."""
    major = HOST.get().host.versions.driver.partition(".")[0]
    return int(major) if major.isdigit() else 0


def instance_handle(gpu: NvidiaGpu, instance: SimGpuInstance) -> int:
    """The handle of a GPU instance."""
    return bus(gpu) | instance.id + 1 << 8


def instance(handle: Any) -> tuple[NvidiaGpu, SimGpuInstance]:
    """A GPU instance and its GPU; NOT_FOUND where it is no more."""
    owner = gpu(handle)
    return owner, owner.grid().instance((number(handle) >> 8 & 0xFF) - 1)


def compute_handle(gpu: NvidiaGpu, instance: SimGpuInstance, compute: SimComputeInstance) -> int:
    """The handle of a compute instance."""
    return instance_handle(gpu, instance) | compute.id + 1 << 16


def is_mig_device(handle: Any) -> bool:
    """Is it a compute instance's handle, and none of a whole GPU?"""
    return bool(number(handle) >> 16 & 0xFF)


def compute(handle: Any) -> tuple[NvidiaGpu, SimGpuInstance, SimComputeInstance]:
    """A compute instance, its GPU instance and GPU; NOT_FOUND where it is no more."""
    owner, inside = instance(handle)
    found = inside.compute.get((number(handle) >> 16 & 0xFF) - 1)
    if found is None:
        raise Failed(pynvml.NVML_ERROR_NOT_FOUND)
    return owner, inside, found


def vgpu_number(gpu: NvidiaGpu, vgpu: Vgpu) -> int:
    """NVML's number of a vGPU."""
    return vgpu.handle << 8 | bus(gpu)


def active_vgpu(handle: Any) -> tuple[NvidiaGpu, Vgpu]:
    """A vGPU with a running VM, and its GPU; NOT_FOUND where there is none of that number."""
    owner = gpu(handle)
    for each in owner.vgpus:
        if each.vm and vgpu_number(owner, each) == number(handle):
            return owner, each
    raise Failed(pynvml.NVML_ERROR_NOT_FOUND)


def vgpu_type(type_id: Any) -> VgpuType:
    """A type of any GPU of the host; INVALID_ARGUMENT where none has it."""
    for each in gpus():
        found = each.type(number(type_id))
        if found is not None:
            return found
    raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def type_of(owner: NvidiaGpu, type_id: Any) -> VgpuType:
    """A type of this GPU; INVALID_ARGUMENT where it has none of that number."""
    found = owner.type(number(type_id))
    if found is None:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return found


def check_transient(name: str, args: Sequence[Any]) -> None:
    """Fail as ``fail_next`` of the GPU that the first argument stands for says, once."""
    waiting = [each for each in gpus() if any(name == entry[0] for entry in each.fail_next)]
    for each in waiting:
        if args and number(args[0]) & 0xFF == bus(each):
            failing = next(entry for entry in each.fail_next if entry[0] == name)
            each.fail_next.remove(failing)
            raise Failed(int(getattr(pynvml, f"NVML_ERROR_{failing[1]}")))
