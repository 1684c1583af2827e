"""The library itself: pynvml's functions by their C name, for the host of the present context.

pynvml keeps one library and caches its functions, so there is one stand-in for all hosts; it
chooses the host by a ContextVar at each call. What it does not have surfaces as FunctionNotFound.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvidia.rm_status import RmRefusal
from vgpumgr.sim.nvml import (
    field_values,
    figure_calls,
    gpu_calls,
    mig_calls,
    power_calls,
    vgpu_calls,
)
from vgpumgr.sim.nvml.c_arguments import Failed
from vgpumgr.sim.nvml.handles import HOST, check_transient

_installing = threading.Lock()
_FUNCTIONS: Mapping[str, Callable[..., None]] = {
    **gpu_calls.DEVICE_FUNCTIONS,
    **gpu_calls.HEALTH_FUNCTIONS,
    **gpu_calls.FABRIC_FUNCTIONS,
    **mig_calls.INSTANCE_FUNCTIONS,
    **mig_calls.COMPUTE_FUNCTIONS,
    **vgpu_calls.TYPE_FUNCTIONS,
    **vgpu_calls.VGPU_FUNCTIONS,
    **vgpu_calls.SHARING_FUNCTIONS,
    **gpu_calls.EVENT_FUNCTIONS,
    **field_values.FIELD_FIGURES,
    **figure_calls.DEVICE_FIGURES,
    **figure_calls.VGPU_FIGURES,
    **figure_calls.INSTANCE_FIGURES,
    **power_calls.POWER_FUNCTIONS,
}


def nvml_module(kernel: Kernel) -> Any:
    """pynvml, answering for this host in the present context from now on."""
    HOST.set(kernel)
    with _installing:
        if not isinstance(pynvml.nvmlLib, _Library):
            pynvml.nvmlLib = _Library()
            pynvml._nvmlGetFunctionPointer_cache.clear()
    return pynvml


class _Library:
    """Functions by their C name; arguments are pynvml's ctypes objects."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        return functools.partial(_answer, name)


def _answer(name: str, *args: Any) -> int:
    try:
        check_transient(name, args)
        _FUNCTIONS[name](*args)
    except Failed as failed:
        return failed.code
    except RmRefusal as refused:
        return int(getattr(pynvml, f"NVML_ERROR_{refused.status}", pynvml.NVML_ERROR_UNKNOWN))
    return int(pynvml.NVML_SUCCESS)
