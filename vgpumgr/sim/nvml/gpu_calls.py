"""NVML's functions about whole GPUs: identity, memory, NVLink, fabric, health, Xid events."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvml.c_arguments import (
    Failed,
    check_version,
    number,
    place,
    put,
    put_handle,
    put_text,
)
from vgpumgr.sim.nvml.handles import HOST, bus, compute, gpu, gpus, is_mig_device

_MIB = 1 << 20


def _init(_flags: int) -> None:
    if "nvidia" not in HOST.get().pci.drivers:
        raise Failed(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def _shutdown() -> None:
    """Nothing is kept open."""


def _driver_version(buffer: Any, length: Any) -> None:
    put_text(buffer, length, HOST.get().host.versions.driver)


def _count(count: Any) -> None:
    put(count, len(gpus()))


def _by_index(index: Any, handle: Any) -> None:
    there = gpus()
    if number(index) >= len(there):
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    _give(there[number(index)], handle)


def _by_pci_bus_id(bus_id: Any, handle: Any) -> None:
    """NVML takes four and eight digits of domain."""
    domain, _, rest = bus_id.value.decode().lower().partition(":")
    _find(lambda each: each.address == f"{int(domain, 16):04x}:{rest}", handle)


def _by_uuid(uuid: Any, handle: Any) -> None:
    _find(lambda each: each.uuid == uuid.value.decode(), handle)


def _by_serial(serial: Any, handle: Any) -> None:
    _find(lambda each: each.serial == serial.value.decode(), handle)


def _find(wanted: Callable[[NvidiaGpu], bool], handle: Any) -> None:
    found = next((each for each in gpus() if wanted(each)), None)
    if found is None:
        raise Failed(pynvml.NVML_ERROR_NOT_FOUND)
    _give(found, handle)


def _give(found: NvidiaGpu, handle: Any) -> None:
    """A lost GPU gives no handle; it is counted until the next boot."""
    if found.lost:
        raise Failed(pynvml.NVML_ERROR_GPU_IS_LOST)
    if found.health.hidden:
        raise Failed(pynvml.NVML_ERROR_UNKNOWN)
    put_handle(handle, bus(found))


def _index(handle: Any, index: Any) -> None:
    put(index, gpus().index(gpu(handle)))


def _name(handle: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, gpu(handle).board.name)


def _uuid(handle: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, gpu(handle).uuid)


def _serial(handle: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, gpu(handle).serial)


def _memory(handle: Any, memory: Any) -> None:
    """A vGPU takes frame buffer when its VM runs, not when it is made."""
    asked = gpu(handle)
    found = place(memory)
    if is_mig_device(handle):
        _instance_memory(handle, found)
        return
    found.total = asked.board.memory_mib * _MIB
    running = sum(each.type.fb_mib for each in asked.vgpus if each.vm)
    found.used = min(found.total, running * _MIB)
    found.free = found.total - found.used


def _instance_memory(handle: Any, found: Any) -> None:
    """Of a MIG device: the memory of its GPU instance."""
    owner, inside, _ = compute(handle)
    whole = inside.profile.memory_mib or owner.board.memory_mib * inside.profile.size // 8
    guests = [each for each in owner.vgpus if each.vm and each.instance_id == inside.id]
    found.total, found.used = whole * _MIB, sum(each.type.fb_mib for each in guests) * _MIB
    found.free = found.total - found.used


def _pci_info(handle: Any, info: Any) -> None:
    asked = gpu(handle)
    found = place(info)
    found.domain, found.bus, found.device = 0, bus(asked), 0
    found.pciDeviceId = int(asked.board.device + "10de", 16)
    vendor, _, device = asked.board.subsystem.partition(":")
    found.pciSubSystemId = int(device + vendor, 16)
    found.busIdLegacy = asked.address.encode()
    found.busId = f"0000{asked.address}".upper().encode()


DEVICE_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlInitWithFlags": _init,
    "nvmlShutdown": _shutdown,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetHandleByPciBusId_v2": _by_pci_bus_id,
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetHandleBySerial": _by_serial,
    "nvmlDeviceGetIndex": _index,
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetSerial": _serial,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetPciInfo_v3": _pci_info,
}


_STATES = {
    "not-supported": pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
    "not-started": pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED,
    "in-progress": pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS,
    "completed": pynvml.NVML_GPU_FABRIC_STATE_COMPLETED,
}


def _module_id(handle: Any, module_id: Any) -> None:
    """A board that is not on a baseboard has none."""
    asked = gpu(handle)
    if asked.module_id is None:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    put(module_id, asked.module_id)


def _fabric_info(handle: Any, info: Any) -> None:
    found = place(info)
    found.state = _STATES[gpu(handle).fabric_state]
    found.status = pynvml.NVML_SUCCESS


def _fabric_info_versioned(handle: Any, info: Any) -> None:
    check_version(place(info), pynvml.nvmlGpuFabricInfo_v2, pynvml.nvmlGpuFabricInfo_v3)
    _fabric_info(handle, info)


def _nvlink_state(handle: Any, link: Any, active: Any) -> None:
    """INVALID_ARGUMENT past the last link, NOT_SUPPORTED without any."""
    links = gpu(handle).nvlinks
    if not links:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if number(link) >= links:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    put(active, 1)


FABRIC_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetModuleId": _module_id,
    "nvmlDeviceGetGpuFabricInfo": _fabric_info,
    "nvmlDeviceGetGpuFabricInfoV": _fabric_info_versioned,
    "nvmlDeviceGetNvLinkState": _nvlink_state,
}


_BEFORE_ROW_REMAPPING = frozenset({"maxwell", "pascal", "volta", "turing"})
_BEFORE_PAGE_RETIREMENT = frozenset({"maxwell"})


def _ecc_mode(handle: Any, current: Any, pending: Any) -> None:
    ecc = _with_ecc(handle).ecc
    put(current, int(ecc.enabled))
    put(pending, int(ecc.pending))


def _set_ecc_mode(handle: Any, mode: Any) -> None:
    _with_ecc(handle).ecc.set(bool(number(mode)))


def _with_ecc(handle: Any) -> NvidiaGpu:
    asked = gpu(handle)
    if not asked.ecc.supported:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return asked


def _remapped_rows(
    handle: Any, correctable: Any, uncorrectable: Any, pending: Any, failure: Any
) -> None:
    """From Ampere on; boards before retire pages."""
    asked = gpu(handle)
    if asked.model.arch in _BEFORE_ROW_REMAPPING:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    rows = asked.health.rows
    put(correctable, rows.correctable)
    put(uncorrectable, rows.uncorrectable)
    put(pending, int(rows.pending))
    put(failure, int(rows.failure))


def _retired_pages_pending(handle: Any, pending: Any) -> None:
    asked = gpu(handle)
    if asked.model.arch not in _BEFORE_ROW_REMAPPING - _BEFORE_PAGE_RETIREMENT:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    put(pending, int(asked.health.rows.pending))


def _sram_status(handle: Any, status: Any) -> None:
    asked = gpu(handle)
    if asked.model.arch in _BEFORE_ROW_REMAPPING or not asked.ecc.enabled:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    place(status).bThresholdExceeded = int(asked.health.sram_exceeded)


HEALTH_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetEccMode": _ecc_mode,
    "nvmlDeviceSetEccMode": _set_ecc_mode,
    "nvmlDeviceGetRemappedRows": _remapped_rows,
    "nvmlDeviceGetRetiredPagesPendingStatus": _retired_pages_pending,
    "nvmlDeviceGetSramEccErrorStatus": _sram_status,
}


_XID = pynvml.nvmlEventTypeXidCriticalError
_NOT_MIG = 0xFFFFFFFF


@dataclass(slots=True)
class _Watch:
    """A GPU and how many of its Xids were told already."""

    gpu: NvidiaGpu
    told: int


@dataclass(slots=True)
class _EventSet:
    watches: list[_Watch] = field(default_factory=list)


_numbers = itertools.count(1)
_sets: dict[int, _EventSet] = {}


def _create(handle: Any) -> None:
    made = next(_numbers)
    _sets[made] = _EventSet()
    put_handle(handle, made)


def _supported(handle: Any, types: Any) -> None:
    gpu(handle)
    put(types, _XID)


def _register(handle: Any, types: Any, event_set: Any) -> None:
    """NOT_SUPPORTED for other kinds of events."""
    asked = gpu(handle)
    if number(types) & ~_XID:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    _found(event_set).watches.append(_Watch(asked, len(asked.health.xids)))


def _wait(event_set: Any, data: Any, _timeout_ms: Any) -> None:
    """The oldest Xid not told yet. Without one: GPU_IS_LOST, or TIMEOUT at once."""
    watches = _found(event_set).watches
    for watch in watches:
        if watch.told < len(watch.gpu.health.xids):
            return _tell(watch, place(data))
    lost = any(watch.gpu.lost for watch in watches)
    raise Failed(pynvml.NVML_ERROR_GPU_IS_LOST if lost else pynvml.NVML_ERROR_TIMEOUT)


def _tell(watch: _Watch, data: Any) -> None:
    data.device = pynvml.cast(bus(watch.gpu), pynvml.c_nvmlDevice_t)
    data.eventType = _XID
    data.eventData = watch.gpu.health.xids[watch.told]
    data.gpuInstanceId = data.computeInstanceId = _NOT_MIG
    watch.told += 1


def _free(event_set: Any) -> None:
    _found(event_set)
    del _sets[number(event_set)]


def _found(event_set: Any) -> _EventSet:
    if number(event_set) not in _sets:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return _sets[number(event_set)]


EVENT_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlEventSetCreate": _create,
    "nvmlEventSetWait_v2": _wait,
    "nvmlEventSetFree": _free,
    "nvmlDeviceGetSupportedEventTypes": _supported,
    "nvmlDeviceRegisterEvents": _register,
}
