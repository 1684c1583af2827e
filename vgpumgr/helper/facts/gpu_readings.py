"""What NVML reads of a GPU that may speak against it: memory, recovery, clocks, link.

Only what stays the same on a GPU that stays well: no temperature, no count of corrected errors.
"""

from __future__ import annotations

import ctypes
from typing import Any

from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# nvmlClocksEventReason*: why the clocks are lower than they could be.
_IDLE = 0x1
_SLOWED = {0x40: "hw-thermal", 0x80: "power-brake", 0x20: "sw-thermal"}

Readings = dict[str, Any]


def read(session: NvmlSession, gpu: Any) -> tuple[Readings, bool]:
    """The readings, None where the board, its driver or the library has no such thing; and whether
    the board refused to tell of memory that it has.
    """
    rows, rows_unread = _told(session, "nvmlDeviceGetRemappedRows", gpu)
    pages, pages_unread = _told(session, "nvmlDeviceGetRetiredPagesPendingStatus", gpu)
    fields = _fields(session, gpu)
    reasons = session.ask("nvmlDeviceGetCurrentClocksEventReasons", gpu)
    found = {
        "recovery_action": fields.get("recovery_action"),
        "uncorrected_errors": fields.get("uncorrected_errors"),
        "rows": rows and _rows(rows),
        "pages": None if pages is None else _pages(fields, pages),
        "sram_exceeded": _sram_exceeded(session, gpu),
        "slowed": [word for bit, word in _SLOWED.items() if reasons and reasons & bit],
        "link_generation": None if reasons is None or reasons & _IDLE else _link(session, gpu),
    }
    return found, rows_unread or pages_unread


def _told(session: NvmlSession, function: str, gpu: Any) -> tuple[Any, bool]:
    """What a function returns, and whether it was refused by a board that has such a thing."""
    found = session.ask(function, gpu)
    return found, bool(session.code) and not session.absent()


def _rows(rows: tuple[int, int, int, int]) -> Readings:
    """Source: nvml.h, nvmlDeviceGetRemappedRows."""
    corrected, uncorrected, pending, failed = rows
    counts = {"corrected": corrected, "uncorrected": uncorrected}
    return {**counts, "pending": bool(pending), "failed": bool(failed)}


def _pages(fields: Readings, pending: int) -> Readings:
    """Boards before Ampere retire pages of memory."""
    counts = {"corrected": fields.get("retired_sbe"), "uncorrected": fields.get("retired_dbe")}
    return {**counts, "pending": pending == 1}


def _fields(session: NvmlSession, gpu: Any) -> Readings:
    """What is answered, in one call; each has a return code of its own."""
    library = session.library
    wanted = {
        "recovery_action": library.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
        "uncorrected_errors": library.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
        "retired_sbe": library.NVML_FI_DEV_RETIRED_SBE,
        "retired_dbe": library.NVML_FI_DEV_RETIRED_DBE,
    }
    values = session.ask("nvmlDeviceGetFieldValues", gpu, list(wanted.values())) or ()
    return {
        name: _number(session, value)
        for name, value in zip(wanted, values)
        if value.nvmlReturn == library.NVML_SUCCESS
    }


def _number(session: NvmlSession, value: Any) -> int:
    wide = value.valueType == session.library.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    return int(value.value.ullVal if wide else value.value.uiVal)


def _sram_exceeded(session: NvmlSession, gpu: Any) -> bool | None:
    """Whether NVIDIA's threshold of uncorrectable SRAM errors is passed (R560 and later)."""
    status = session.library.c_nvmlEccSramErrorStatus_v1_t()
    told = session.ask("nvmlDeviceGetSramEccErrorStatus", gpu, ctypes.byref(status))
    return None if told is None else bool(status.bThresholdExceeded)


def _link(session: NvmlSession, gpu: Any) -> dict[str, int] | None:
    """The PCIe generation in use, and the most that board and slot have together: an idle GPU
    takes the lowest on its own.
    """
    now = session.ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu)
    most = session.ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu)
    if now is None or most is None or now >= most:
        return None
    return {"now": int(now), "most": int(most)}
