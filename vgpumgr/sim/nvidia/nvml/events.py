"""Events: a set of GPUs, and the Xids that happened on them since they were registered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.nvml.arguments import Failed, number, place, put, put_handle
from vgpumgr.sim.nvidia.nvml.host import bus, gpu

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


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlEventSetCreate": _create,
    "nvmlEventSetWait_v2": _wait,
    "nvmlEventSetFree": _free,
    "nvmlDeviceGetSupportedEventTypes": _supported,
    "nvmlDeviceRegisterEvents": _register,
}
