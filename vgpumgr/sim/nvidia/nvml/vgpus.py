"""What a GPU can make, and the vGPUs that run; one without a running VM is not seen here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.nvml.arguments import (
    Failed,
    check_version,
    place,
    put,
    put_list,
    put_text,
)
from vgpumgr.sim.nvidia.nvml.host import active_vgpu, gpu, vgpu_number

_NO_INSTANCE = 0xFFFFFFFF
_NO_PLACEMENT = 0xFFFF
_HOST_MODES = {
    "mdev-on-pf": pynvml.NVML_HOST_VGPU_MODE_NON_SRIOV,
    "sriov-vf": pynvml.NVML_HOST_VGPU_MODE_SRIOV,
}


def vgpu_gpu(handle: Any) -> NvidiaGpu:
    """The GPU; NOT_SUPPORTED where the board makes no vGPUs."""
    asked = gpu(handle)
    if asked.model.host_mode not in _HOST_MODES:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return asked


def _supported(handle: Any, count: Any, array: Any) -> None:
    put_list(count, array, [each.id for each in vgpu_gpu(handle).types() if each.id is not None])


def _creatable(handle: Any, count: Any, array: Any) -> None:
    found = vgpu_gpu(handle).creatable()
    put_list(count, array, [each.id for each in found if each.id is not None])


def _active(handle: Any, count: Any, array: Any) -> None:
    asked = vgpu_gpu(handle)
    put_list(count, array, [vgpu_number(asked, each) for each in asked.vgpus if each.vm])


def _host_mode(handle: Any, mode: Any) -> None:
    put(mode, _HOST_MODES[vgpu_gpu(handle).model.host_mode or ""])


def _virtualization_mode(handle: Any, mode: Any) -> None:
    makes = gpu(handle).model.host_mode is not None
    host, none = pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU, 0
    put(mode, host if makes else none)


def _vm_id(vgpu: Any, buffer: Any, length: Any, kind: Any) -> None:
    put_text(buffer, length, active_vgpu(vgpu)[1].vm)
    put(kind, pynvml.NVML_VGPU_VM_ID_UUID)


def _uuid(vgpu: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, active_vgpu(vgpu)[1].uuid)


def _mdev_uuid(vgpu: Any, buffer: Any, length: Any) -> None:
    """NOT_SUPPORTED under the vendor-specific VFIO framework: the carrier is a VF."""
    carrier = active_vgpu(vgpu)[1].carrier
    if ":" in carrier:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    put_text(buffer, length, carrier)


def _type(vgpu: Any, type_id: Any) -> None:
    put(type_id, active_vgpu(vgpu)[1].type_id)


def _fb_usage(vgpu: Any, usage: Any) -> None:
    """Bytes."""
    put(usage, active_vgpu(vgpu)[1].type.fb_mib << 20)


def _instance_id(vgpu: Any, instance_id: Any) -> None:
    found = active_vgpu(vgpu)[1].instance_id
    put(instance_id, _NO_INSTANCE if found is None else found)


def _placement_id(vgpu: Any, placement: Any) -> None:
    check_version(place(placement), pynvml.VgpuPlacementId_v1)
    found = active_vgpu(vgpu)[1].placement_id
    place(placement).placementId = _NO_PLACEMENT if found is None else found


def _ecc_mode(vgpu: Any, mode: Any) -> None:
    put(mode, int(active_vgpu(vgpu)[0].ecc.enabled))


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetSupportedVgpus": _supported,
    "nvmlDeviceGetCreatableVgpus": _creatable,
    "nvmlDeviceGetActiveVgpus": _active,
    "nvmlDeviceGetHostVgpuMode": _host_mode,
    "nvmlDeviceGetVirtualizationMode": _virtualization_mode,
    "nvmlVgpuInstanceGetVmID": _vm_id,
    "nvmlVgpuInstanceGetUUID": _uuid,
    "nvmlVgpuInstanceGetMdevUUID": _mdev_uuid,
    "nvmlVgpuInstanceGetType": _type,
    "nvmlVgpuInstanceGetFbUsage": _fb_usage,
    "nvmlVgpuInstanceGetGpuInstanceId": _instance_id,
    "nvmlVgpuInstanceGetPlacementId": _placement_id,
    "nvmlVgpuInstanceGetEccMode": _ecc_mode,
}
