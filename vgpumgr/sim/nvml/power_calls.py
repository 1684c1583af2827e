"""NVML's functions that limit a GPU's power and lock its clocks; what drivers refuse of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.sim.nvml.c_arguments import Failed, number, put
from vgpumgr.sim.nvml.handles import activity, gpu


def _bounds(handle: Any, least: Any, most: Any) -> None:
    put(least, gpu(handle).power.least_mw)
    put(most, gpu(handle).power.most_mw)


def _default(handle: Any, milliwatts: Any) -> None:
    put(milliwatts, gpu(handle).power.default_mw)


def _limit(handle: Any, milliwatts: Any) -> None:
    put(milliwatts, gpu(handle).power.limit_mw)


def _set_limit(handle: Any, milliwatts: Any) -> None:
    gpu(handle).power.set_limit(number(milliwatts))


def _lock(handle: Any, least: Any, most: Any) -> None:
    """From Volta on (nvml.h)."""
    _require_locks(handle)
    gpu(handle).power.lock_clocks(number(least), number(most))


def _unlock(handle: Any) -> None:
    _require_locks(handle)
    gpu(handle).power.unlock_clocks()


def _require_locks(handle: Any) -> None:
    if not activity(handle).since("volta"):
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _stay_loaded(handle: Any, mode: Any) -> None:
    """Taken: simulated drivers do not unload by themselves."""
    gpu(handle)
    if number(mode) > 1:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)


POWER_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetPowerManagementLimitConstraints": _bounds,
    "nvmlDeviceGetPowerManagementDefaultLimit": _default,
    "nvmlDeviceGetPowerManagementLimit": _limit,
    "nvmlDeviceSetPowerManagementLimit": _set_limit,
    "nvmlDeviceSetGpuLockedClocks": _lock,
    "nvmlDeviceResetGpuLockedClocks": _unlock,
    "nvmlDeviceSetPersistenceMode": _stay_loaded,
}
