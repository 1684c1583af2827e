"""NVML's field values: counters, limits and states of a GPU that one call tells together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.gpu_activity import HW_THERMAL, POWER_CAP, GpuActivity
from vgpumgr.sim.nvml.c_arguments import number, place
from vgpumgr.sim.nvml.handles import activity, driver_branch

_ALL_LINKS = 0xFFFFFFFF
# The release of the driver that tells how long heat held the clocks down (nvml.h's change log).
_THERMAL_FIELDS_SINCE = 570


def _of_boot(asked: GpuActivity) -> Mapping[int, float]:
    """Counters of what happened since the driver was loaded, by field."""
    meters = asked.meters()
    fields: dict[int, float] = {}
    if asked.since("volta"):
        fields[pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION] = meters.energy_mj
    if asked.since("ampere"):
        fields[pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES] = meters.pcie_tx
        fields[pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES] = meters.pcie_rx
    fields[pynvml.NVML_FI_DEV_PERF_POLICY_POWER] = meters.throttle_ns[POWER_CAP]
    fields[pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST] = 0
    if driver_branch() >= _THERMAL_FIELDS_SINCE:
        thermal = meters.throttle_ns[HW_THERMAL]
        fields[pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN] = thermal
        fields[pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN] = 0
        fields[pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN] = 0
    fields[pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER] = 0
    return fields


def _of_power(asked: GpuActivity) -> Mapping[int, float]:
    power = asked.gpu.power
    limit = power.limit_mw
    fields: dict[int, float] = {}
    if asked.since("ampere"):
        fields[pynvml.NVML_FI_DEV_POWER_INSTANT] = asked.milliwatts()
        fields[pynvml.NVML_FI_DEV_POWER_AVERAGE] = asked.milliwatts()
        fields[pynvml.NVML_FI_DEV_POWER_REQUESTED_LIMIT] = limit
    fields[pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT] = limit
    fields[pynvml.NVML_FI_DEV_POWER_DEFAULT_LIMIT] = power.default_mw
    fields[pynvml.NVML_FI_DEV_POWER_MIN_LIMIT] = power.least_mw
    fields[pynvml.NVML_FI_DEV_POWER_MAX_LIMIT] = power.most_mw
    if asked.has_hbm:
        fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = asked.memory_celsius()
    return fields


def _of_memory_errors(asked: GpuActivity) -> Mapping[int, float]:
    """Rows are not told of a GPU with MIG instances; pages are retired before Ampere."""
    health = asked.gpu.health
    fields: dict[int, float] = {}
    if asked.gpu.ecc.enabled:
        fields[pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL] = health.rows.correctable
        fields[pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL] = health.rows.correctable
        fields[pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL] = health.uncorrected
        life = max(health.uncorrected, health.rows.uncorrectable)
        fields[pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL] = life
    has_instances = asked.gpu.mig.enabled and bool(asked.gpu.grid().instances)
    if asked.since("ampere") and not has_instances:
        fields[pynvml.NVML_FI_DEV_REMAPPED_COR] = health.rows.correctable
        fields[pynvml.NVML_FI_DEV_REMAPPED_UNC] = health.rows.uncorrectable
        fields[pynvml.NVML_FI_DEV_REMAPPED_PENDING] = int(health.rows.pending)
        fields[pynvml.NVML_FI_DEV_REMAPPED_FAILURE] = int(health.rows.failure)
    elif asked.since("pascal") and not asked.since("ampere"):
        fields[pynvml.NVML_FI_DEV_RETIRED_SBE] = 0
        fields[pynvml.NVML_FI_DEV_RETIRED_DBE] = health.retired
    return fields


def _of_links(asked: GpuActivity) -> Mapping[int, float]:
    if not asked.gpu.nvlinks:
        return {}
    meters = asked.meters()
    errors = (
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    )
    return {
        **dict.fromkeys(errors, 0.0),
        pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES: meters.nvlink_tx,
        pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES: meters.nvlink_rx,
    }


def _field_values(handle: Any, count: Any, values: Any) -> None:
    """Each field has a return code of its own; those of links are told of all of them together."""
    asked, array = activity(handle), place(values)
    action = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    known: dict[int, float] = {action: int(asked.gpu.health.recovery)}
    known |= {**_of_boot(asked), **_of_power(asked), **_of_memory_errors(asked)}
    links = _of_links(asked)
    for index in range(number(count)):
        told = links if array[index].scopeId == _ALL_LINKS else known
        _fill_field(array[index], told.get(array[index].fieldId))


def _fill_field(field: Any, value: float | None) -> None:
    if value is None:
        field.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return
    field.nvmlReturn = pynvml.NVML_SUCCESS
    field.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    field.value.ullVal = int(value)


FIELD_FIGURES: dict[str, Callable[..., None]] = {"nvmlDeviceGetFieldValues": _field_values}
