"""What NVIDIA's library says of the GPUs that its driver holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vgpumgr.helper.system import System

_MIB = 1 << 20


def gather(system: System) -> dict[str, Any]:
    """Driver version and GPUs; a field the library refuses is None.

    ValueError says why there is no answer at all.
    """
    library = system.nvml()
    if library is None:
        raise ValueError("nvidia-ml-py is not installed beside the helper")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise ValueError(f"libnvidia-ml.so.1: {error}") from error
    try:
        count = library.nvmlDeviceGetCount()
        gpus = [_gpu(library, index) for index in range(count)]
        return {"driver": _field(library, library.nvmlSystemGetDriverVersion), "gpus": gpus}
    except library.NVMLError as error:
        raise ValueError(f"the GPUs could not be counted: {error}") from error
    finally:
        _field(library, library.nvmlShutdown)


def _gpu(library: Any, index: int) -> dict[str, Any]:
    handle = _field(library, library.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return dict.fromkeys(("address", "uuid", "serial", "name", "memory_mib"))
    bus = _field(library, library.nvmlDeviceGetPciInfo, handle)
    memory = _field(library, library.nvmlDeviceGetMemoryInfo, handle)
    return {
        "address": None if bus is None else _address(_text(bus.busId)),
        "uuid": _field(library, library.nvmlDeviceGetUUID, handle),
        "serial": _field(library, library.nvmlDeviceGetSerial, handle),
        "name": _field(library, library.nvmlDeviceGetName, handle),
        "memory_mib": None if memory is None else int(memory.total) // _MIB,
    }


def _field(library: Any, function: Callable[..., Any], *given: Any) -> Any:
    try:
        value = function(*given)
    except library.NVMLError:
        return None
    return _text(value) if isinstance(value, bytes) else value


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _address(bus_id: str) -> str | None:
    """NVML prints eight digits of domain (``00000000:41:00.0``), sysfs at least four."""
    domain, separator, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if separator else None
