"""The library's start, and what each GPU is: name, numbers, memory, place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.nvml.arguments import Failed, number, place, put, put_handle, put_text
from vgpumgr.sim.nvidia.nvml.host import HOST, bus, gpu, gpus

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
    found.total = asked.board.memory_mib * _MIB
    running = sum(each.type.fb_mib for each in asked.vgpus if each.vm)
    found.used = min(found.total, running * _MIB)
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


FUNCTIONS: dict[str, Callable[..., None]] = {
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
