"""The figures of one GPU by NVML: one call for all that are fields, one for each other subject.

Sources of numbers and units: nvml.h of R580. What the driver does not answer is left out.
"""

from __future__ import annotations

from typing import Any, Callable

from vgpumgr.helper.nvidia.nvml_session import NvmlSession

Figures = dict[str, int]

# Counters of NVLinks are of one link, or of all together by this scope.
_ALL_LINKS = 0xFFFFFFFF
# The field that answers first is taken: newer boards have dropped some. Their names, and scopes.
_FIELDS: dict[str, tuple[tuple[str, int], ...]] = {
    "temperature_memory_c": (("MEMORY_TEMP", 0),),
    "power_mw": (("POWER_INSTANT", 0), ("POWER_AVERAGE", 0)),
    "limit_enforced_mw": (("POWER_CURRENT_LIMIT", 0),),
    "limit_requested_mw": (("POWER_REQUESTED_LIMIT", 0),),
    "limit_default_mw": (("POWER_DEFAULT_LIMIT", 0),),
    "limit_min_mw": (("POWER_MIN_LIMIT", 0),),
    "limit_max_mw": (("POWER_MAX_LIMIT", 0),),
    "energy_mj": (("TOTAL_ENERGY_CONSUMPTION", 0),),
    "throttle_power_ns": (("PERF_POLICY_POWER", 0),),
    "throttle_sync_boost_ns": (("PERF_POLICY_SYNC_BOOST", 0),),
    "throttle_sw_thermal_ns": (("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", 0),),
    "throttle_hw_thermal_ns": (("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", 0),),
    "throttle_power_brake_ns": (("CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", 0),),
    "ecc_corrected_boot": (("ECC_SBE_VOL_TOTAL", 0),),
    "ecc_uncorrected_boot": (("ECC_DBE_VOL_TOTAL", 0),),
    "ecc_corrected_life": (("ECC_SBE_AGG_TOTAL", 0),),
    "ecc_uncorrected_life": (("ECC_DBE_AGG_TOTAL", 0),),
    "rows_corrected": (("REMAPPED_COR", 0),),
    "rows_uncorrected": (("REMAPPED_UNC", 0),),
    "rows_pending": (("REMAPPED_PENDING", 0),),
    "rows_failed": (("REMAPPED_FAILURE", 0),),
    "pages_single_bit": (("RETIRED_SBE", 0),),
    "pages_double_bit": (("RETIRED_DBE", 0),),
    "recovery_action": (("GET_GPU_RECOVERY_ACTION", 0),),
    "pcie_replays": (("PCIE_REPLAY_COUNTER", 0),),
    "pcie_tx_bytes": (("PCIE_COUNT_TX_BYTES", 0),),
    "pcie_rx_bytes": (("PCIE_COUNT_RX_BYTES", 0),),
    "nvlink_ecc_errors": (("NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", 0),),
    "nvlink_replay_errors": (
        ("NVLINK_ERROR_DL_REPLAY", _ALL_LINKS),
        ("NVLINK_REPLAY_ERROR_COUNT_TOTAL", 0),
    ),
    "nvlink_recovery_errors": (
        ("NVLINK_ERROR_DL_RECOVERY", _ALL_LINKS),
        ("NVLINK_COUNT_LINK_RECOVERY_EVENTS", _ALL_LINKS),
        ("NVLINK_RECOVERY_ERROR_COUNT_TOTAL", 0),
    ),
    "nvlink_crc_errors": (
        ("NVLINK_ERROR_DL_CRC", _ALL_LINKS),
        ("NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", 0),
    ),
    "nvlink_tx_bytes": (("NVLINK_COUNT_XMIT_BYTES", _ALL_LINKS),),
    "nvlink_rx_bytes": (("NVLINK_COUNT_RCV_BYTES", _ALL_LINKS),),
}
# nvmlValueType_t, and where in nvmlValue_t such a value is.
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_GPU_SENSOR = 0
_THRESHOLDS = {
    "threshold_shutdown_c": 0,
    "threshold_slowdown_c": 1,
    "threshold_memory_max_c": 2,
    "threshold_gpu_max_c": 3,
}
_CLOCKS = {"clock_sm_mhz": 1, "clock_memory_mhz": 2, "clock_video_mhz": 3}
# nvmlClocksEventReason…
_REASONS = {
    "throttled_power": 0x4,
    "throttled_sync_boost": 0x10,
    "throttled_sw_thermal": 0x20,
    "throttled_hw_thermal": 0x40,
    "throttled_power_brake": 0x80,
}
_BANKS = ("max", "high", "partial", "low", "none")


def read(session: NvmlSession, gpu: Any) -> Figures:
    """Every figure that the driver answers."""
    found = _field_values(session, gpu)
    for reader in _READERS:
        found.update(reader(session, gpu))
    for name, (function, *given) in _FALLBACKS.items():
        if name not in found:
            _put(found, name, session.ask(function, gpu, *given))
    return found


def _field_values(session: NvmlSession, gpu: Any) -> Figures:
    """All fields in one call; each has a return code of its own."""
    asked = [
        (name, number, scope)
        for name, fields in _FIELDS.items()
        for field, scope in fields
        for number in (getattr(session.library, f"NVML_FI_DEV_{field}", None),)
        if number is not None
    ]
    numbered = [(number, scope) for _, number, scope in asked]
    values = session.ask("nvmlDeviceGetFieldValues", gpu, numbered)
    found: Figures = {}
    for (name, _, _), value in zip(asked, values or ()):
        if name not in found and value.nvmlReturn == session.library.NVML_SUCCESS:
            _put(found, name, _value(value))
    return found


def _value(field: Any) -> float | None:
    kind = int(field.valueType)
    return getattr(field.value, _VALUES[kind]) if kind < len(_VALUES) else None


def _put(found: Figures, name: str, value: float | None) -> None:
    if value is not None:
        found[name] = int(value)


def _utilization(session: NvmlSession, gpu: Any) -> Figures:
    """Not with MIG on, and not of what others than the driver's host see."""
    rates = session.ask("nvmlDeviceGetUtilizationRates", gpu)
    found: Figures = {}
    if rates is not None:
        found = {"utilization_percent": int(rates.gpu), "memory_copy_percent": int(rates.memory)}
    for name, function in (
        ("encoder_percent", "nvmlDeviceGetEncoderUtilization"),
        ("decoder_percent", "nvmlDeviceGetDecoderUtilization"),
    ):
        told = session.ask(function, gpu)
        _put(found, name, None if told is None else told[0])
    return found


def _memory(session: NvmlSession, gpu: Any) -> Figures:
    """The second version tells the driver's own part apart; drivers before R510 have the first."""
    version = getattr(session.library, "nvmlMemory_v2", None)
    memory = version and session.ask("nvmlDeviceGetMemoryInfo", gpu, version)
    found: Figures = {}
    if memory:
        found["framebuffer_reserved_bytes"] = int(memory.reserved)
    else:
        memory = session.ask("nvmlDeviceGetMemoryInfo", gpu)
    if memory:
        found["framebuffer_total_bytes"] = int(memory.total)
        found["framebuffer_used_bytes"] = int(memory.used)
    return found


def _temperatures(session: NvmlSession, gpu: Any) -> Figures:
    found: Figures = {}
    told = session.ask("nvmlDeviceGetTemperatureV", gpu, _GPU_SENSOR)
    if told is None:
        told = session.ask("nvmlDeviceGetTemperature", gpu, _GPU_SENSOR)
    _put(found, "temperature_gpu_c", told)
    _put(found, "margin_c", session.ask("nvmlDeviceGetMarginTemperature", gpu))
    for name, number in _THRESHOLDS.items():
        _put(found, name, session.ask("nvmlDeviceGetTemperatureThreshold", gpu, number))
    return found


def _clocks(session: NvmlSession, gpu: Any) -> Figures:
    found: Figures = {}
    for name, number in _CLOCKS.items():
        _put(found, name, session.ask("nvmlDeviceGetClockInfo", gpu, number))
    reasons = session.ask("nvmlDeviceGetCurrentClocksEventReasons", gpu)
    if reasons is None:  # its name before R535
        reasons = session.ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
    if reasons is not None:
        found.update({name: int(bool(reasons & mask)) for name, mask in _REASONS.items()})
    return found


def _banks(session: NvmlSession, gpu: Any) -> Figures:
    told = session.ask("nvmlDeviceGetRowRemapperHistogram", gpu)
    return {} if told is None else {f"banks_{left}": int(getattr(told, left)) for left in _BANKS}


_READERS: tuple[Callable[[NvmlSession, Any], Figures], ...] = (
    _utilization,
    _memory,
    _temperatures,
    _clocks,
    _banks,
)
# What else can be asked where a driver does not have the field.
_FALLBACKS: dict[str, tuple[Any, ...]] = {
    "power_mw": ("nvmlDeviceGetPowerUsage",),
    "energy_mj": ("nvmlDeviceGetTotalEnergyConsumption",),
    "limit_enforced_mw": ("nvmlDeviceGetEnforcedPowerLimit",),
    "pcie_replays": ("nvmlDeviceGetPcieReplayCounter",),
}
