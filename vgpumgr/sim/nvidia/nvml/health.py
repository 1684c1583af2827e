"""ECC, remapped rows, clocks, and what the driver wants done about a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.nvml.arguments import Failed, number, place, put
from vgpumgr.sim.nvidia.nvml.host import gpu

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


def _clock_reasons(handle: Any, reasons: Any) -> None:
    put(reasons, gpu(handle).health.clock_reasons)


def _field_values(handle: Any, count: Any, values: Any) -> None:
    """Each field has a return code of its own."""
    asked = gpu(handle)
    array = place(values)
    for index in range(number(count)):
        field = array[index]
        if field.fieldId == pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
            field.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
            field.nvmlReturn = pynvml.NVML_SUCCESS
            field.value.uiVal = int(asked.health.recovery)
        else:
            field.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetEccMode": _ecc_mode,
    "nvmlDeviceSetEccMode": _set_ecc_mode,
    "nvmlDeviceGetRemappedRows": _remapped_rows,
    "nvmlDeviceGetRetiredPagesPendingStatus": _retired_pages_pending,
    "nvmlDeviceGetCurrentClocksEventReasons": _clock_reasons,
    "nvmlDeviceGetFieldValues": _field_values,
}
