"""Real nvidia-ml-py over a Python object that stands in for ``libnvidia-ml.so``.

pynvml keeps one library and caches its functions, so there is one stand-in for all hosts; it
chooses the host by a ContextVar at each call. What it does not have surfaces as FunctionNotFound.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pynvml

from vgpumgr.sim.hardware import Gpu, hardware
from vgpumgr.sim.kernel import Kernel

_host: ContextVar[Kernel] = ContextVar("simulated host")
_installing = threading.Lock()
_MIB = 1 << 20


def module(kernel: Kernel) -> Any:
    """pynvml, answering for this host in the present context from now on."""
    _host.set(kernel)
    with _installing:
        if not isinstance(pynvml.nvmlLib, _Library):
            pynvml.nvmlLib = _Library()
            pynvml._nvmlGetFunctionPointer_cache.clear()
    return pynvml


class _Library:
    """Functions by their C name; arguments are pynvml's ctypes objects."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(name)
        return functools.partial(_answer, function)


def _answer(function: Callable[..., None], *args: Any) -> int:
    try:
        function(*args)
    except _Failed as failed:
        return failed.code
    return int(pynvml.NVML_SUCCESS)


class _Failed(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _gpus() -> list[Gpu]:
    """The GPUs that NVIDIA's driver holds now, by bus."""
    kernel = _host.get()
    functions = kernel.pci.functions
    return [gpu for gpu in hardware(kernel.host).gpus if functions[gpu.address].driver == "nvidia"]


def _init(_flags: int) -> None:
    if "nvidia" not in _host.get().pci.drivers:
        raise _Failed(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def _shutdown() -> None:
    """Nothing is kept open."""


def _driver_version(buffer: Any, length: Any) -> None:
    _text(buffer, length, _host.get().host.versions.driver)


def _count(count: Any) -> None:
    count._obj.value = len(_gpus())


def _by_index(index: Any, handle: Any) -> None:
    if index.value >= len(_gpus()):
        raise _Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    # A handle is opaque: the bus number serves.
    _point(handle, _gpus()[index.value])


def _point(handle: Any, gpu: Gpu) -> None:
    pointer = pynvml.cast(gpu.bus, type(handle._obj))
    pynvml.memmove(handle, pynvml.byref(pointer), pynvml.sizeof(pointer))


def _gpu(handle: Any) -> Gpu:
    bus = pynvml.cast(handle, pynvml.c_void_p).value
    for gpu in _gpus():
        if gpu.bus == bus:
            return gpu
    raise _Failed(pynvml.NVML_ERROR_GPU_IS_LOST)


def _name(handle: Any, buffer: Any, length: Any) -> None:
    _text(buffer, length, _gpu(handle).board.name)


def _uuid(handle: Any, buffer: Any, length: Any) -> None:
    _text(buffer, length, f"GPU-{uuid.UUID(bytes=_identity(_gpu(handle))[:16])}")


def _serial(handle: Any, buffer: Any, length: Any) -> None:
    number = int.from_bytes(_identity(_gpu(handle))[16:20], "big")
    _text(buffer, length, f"{1_320_000_000_000 + number}")


def _memory(handle: Any, memory: Any) -> None:
    total = _gpu(handle).board.memory_mib * _MIB
    memory._obj.total, memory._obj.free, memory._obj.used = total, total, 0


def _pci_info(handle: Any, info: Any) -> None:
    gpu = _gpu(handle)
    info._obj.domain, info._obj.bus, info._obj.device = 0, gpu.bus, 0
    info._obj.pciDeviceId = int(gpu.board.device + "10de", 16)
    info._obj.busIdLegacy = gpu.address.encode()
    info._obj.busId = f"0000{gpu.address}".upper().encode()


def _identity(gpu: Gpu) -> bytes:
    """The same at every boot, and of no other GPU of the fleet."""
    return hashlib.sha256(f"{_host.get().host.name} {gpu.bus} {gpu.board.key}".encode()).digest()


def _text(buffer: Any, length: Any, text: str) -> None:
    if len(text) >= length.value:
        raise _Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    buffer.value = text.encode()


_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlInitWithFlags": _init,
    "nvmlShutdown": _shutdown,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetSerial": _serial,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetPciInfo_v3": _pci_info,
}
