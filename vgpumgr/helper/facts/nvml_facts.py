"""The facts of NVML about each GPU that NVIDIA's driver holds, its health included."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

from vgpumgr.helper import pci
from vgpumgr.helper.errors import ProbeParts
from vgpumgr.helper.nvidia import mig_state, nvml_session, power_limits, vgpu_scheduler
from vgpumgr.helper.nvidia.nvml_session import NvmlSession
from vgpumgr.helper.system import System

# nvmlClocksEventReason*: why the clocks are lower than they could be.
_IDLE = 0x1
_SLOWED = {0x40: "hw-thermal", 0x80: "power-brake", 0x20: "sw-thermal"}

Readings = dict[str, Any]


def read_gpu(session: NvmlSession, gpu: Any) -> tuple[Readings, bool]:
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


OK, RESET_REQUIRED, FAILED, LOST = "ok", "reset-required", "failed", "lost"
# What NVML tells where it cannot tell: never taken for a board without fault.
UNKNOWN = None

_GONE = "NVML says that the GPU is lost"

# nvmlDeviceGpuRecoveryAction_t; 3 and 5 concern the fabric around the GPU, not the GPU.
_ACTIONS = {
    1: (RESET_REQUIRED, "the driver asks for a GPU reset"),
    2: (RESET_REQUIRED, "the driver asks for a reboot of the host"),
    3: (OK, "the driver asks to drain peer-to-peer work"),
    4: (RESET_REQUIRED, "the driver asks to drain the GPU and reset it"),
    5: (OK, "the driver asks to recover the IMEX domain"),
    6: (RESET_REQUIRED, "the driver asks for a bus reset"),
    7: (RESET_REQUIRED, "the driver asks for a reboot of the host"),
}


def health_of(
    system: System, session: NvmlSession, address: str, readings: Readings | None, *, unread: bool
) -> dict[str, str | None]:
    """``health`` and ``health_detail``; call it last: it looks which questions NVML refused.

    ``readings`` None: NVML gave no handle; ``unread``: it refused to tell of memory that the board
    has. ``health`` is null where nothing can be said.
    """
    health, detail = _lost(system, session, address) or _asked(session, readings, unread)
    return {"health": health, "health_detail": detail}


def _lost(system: System, session: NvmlSession, address: str) -> tuple[str, str] | None:
    if session.said("NVML_ERROR_GPU_IS_LOST"):
        return LOST, _GONE
    with contextlib.suppress(OSError):
        if pci.lost(system, address):
            return LOST, "its configuration space reads all ones"
    return None


def _asked(session: NvmlSession, readings: Readings | None, unread: bool) -> tuple[str | None, str]:
    """A board to be replaced comes first, then what the driver asks for, then what waits.

    What a board does not have is no fault; what it has and refuses to tell makes it unknown.
    """
    if readings is None:
        return UNKNOWN, f"NVML gives no handle: {_codes(session)}"
    rows, pages = readings["rows"] or {}, readings["pages"] or {}
    if rows.get("failed"):
        return FAILED, "a memory row could not be remapped: replace the board"
    if readings["recovery_action"] in _ACTIONS:
        return _ACTIONS[readings["recovery_action"]]
    if session.said("NVML_ERROR_RESET_REQUIRED"):
        return RESET_REQUIRED, "NVML says that the GPU requires a reset"
    if rows.get("pending"):
        return RESET_REQUIRED, "remapped memory rows wait for a reset"
    if pages.get("pending"):
        return RESET_REQUIRED, "retired memory pages wait for a reset"
    if unread:
        return UNKNOWN, f"NVML does not report its memory: {_codes(session)}"
    return OK, ""


def _codes(session: NvmlSession) -> str:
    return ", ".join(f"NVML code {code}" for code in sorted(session.codes)) or "it does not say why"


_MIB = 1 << 20

# nvmlDeviceVgpuCapability_t; 3 and 4 are bandwidths.
_CAPABILITIES = {
    0: "fractional-multi-vgpu",
    1: "mixed-profiles",
    2: "mixed-size",
    5: "device-streaming",
    6: "mini-quarter",
    7: "compute-media-engine",
    8: "warm-update",
    9: "same-size-placements",
    10: "mig-time-slicing",
    11: "mig-time-slicing-enabled",
}
_FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}


# Taken for absent, these would be changed or destroyed unseen: a failure to read them is named.
_NAMED = ("mig", "mixed_size")


def gather(system: System, addresses: Sequence[str], parts: ProbeParts) -> dict[str, Any]:
    """Driver version and one entry per address; a field that is not answered is None."""
    with nvml_session.session(system) as session:
        driver = session.ask("nvmlSystemGetDriverVersion")
        gpus = [_gpu(system, session, each, parts) for each in addresses]
        return {"driver": driver, "gpus": gpus}


def _gpu(system: System, session: NvmlSession, address: str, parts: ProbeParts) -> dict[str, Any]:
    session.codes.clear()
    gpu = session.ask("nvmlDeviceGetHandleByPciBusId", nvml_session.bus_id(address))
    found = {"address": address, **dict.fromkeys(_READERS), "power": None}
    failed = [] if gpu is not None else [_failure("handle", session)]
    for name, read in _READERS.items() if gpu is not None else ():
        found[name] = read(session, gpu)
        if name in _NAMED and found[name] is None and session.code and not session.absent():
            failed.append(_failure(name, session))
    if gpu is not None:
        found["power"] = power_limits.facts(system, session, gpu, address)
    seen, unread = read_gpu(session, gpu) if gpu is not None else (None, False)
    found["readings"] = seen
    found.update(health_of(system, session, address, seen, unread=unread))
    if failed and found["health"] != LOST:
        parts.miss(f"nvml {address}", ", ".join(failed))
    return found


def _failure(name: str, session: NvmlSession) -> str:
    return f"{name}: NVML code {session.code}"


def _memory_mib(session: NvmlSession, gpu: Any) -> int | None:
    memory = session.ask("nvmlDeviceGetMemoryInfo", gpu)
    return None if memory is None else int(memory.total) // _MIB


def _ecc(session: NvmlSession, gpu: Any) -> bool | None:
    modes = session.ask("nvmlDeviceGetEccMode", gpu)
    return None if modes is None else bool(modes[0] == 1)


def _module_id(session: NvmlSession, gpu: Any) -> int | None:
    # A place of our own: pynvml's default one is shared by all threads.
    number = ctypes.c_uint()
    code = session.ask("nvmlDeviceGetModuleId", gpu, ctypes.byref(number))
    return int(number.value) if code == session.library.NVML_SUCCESS else None


def _fabric_state(session: NvmlSession, gpu: Any) -> str | None:
    info = session.library.c_nvmlGpuFabricInfo_v2_t()
    if session.ask("nvmlDeviceGetGpuFabricInfoV", gpu, ctypes.byref(info)) is None:
        info = session.library.c_nvmlGpuFabricInfo_t()
        if session.ask("nvmlDeviceGetGpuFabricInfo", gpu, ctypes.byref(info)) is None:
            return None
    return _FABRIC_STATES.get(int(info.state))


def _nvlinks(session: NvmlSession, gpu: Any) -> int | None:
    """How many NVLinks are active; NVML refuses a number that the board does not have."""
    if session.ask("nvmlDeviceGetNvLinkState", gpu, 0) is None:
        return None
    links = range(session.library.NVML_NVLINK_MAX_LINKS)
    return sum(int(session.ask("nvmlDeviceGetNvLinkState", gpu, link) == 1) for link in links)


def _mixed_size(session: NvmlSession, gpu: Any) -> bool | None:
    mode = session.ask("nvmlDeviceGetVgpuHeterogeneousMode", gpu)
    return None if mode is None else bool(mode == 1)


def _capabilities(session: NvmlSession, gpu: Any) -> list[str] | None:
    answers = {
        name: session.ask("nvmlDeviceGetVgpuCapabilities", gpu, number)
        for number, name in _CAPABILITIES.items()
    }
    if all(answer is None for answer in answers.values()):
        return None
    return [name for name, answer in answers.items() if answer]


_READERS = {
    "uuid": lambda session, gpu: session.ask("nvmlDeviceGetUUID", gpu),
    "serial": lambda session, gpu: session.ask("nvmlDeviceGetSerial", gpu),
    "name": lambda session, gpu: session.ask("nvmlDeviceGetName", gpu),
    "memory_mib": _memory_mib,
    "ecc": _ecc,
    "module_id": _module_id,
    "fabric_state": _fabric_state,
    "nvlinks": _nvlinks,
    "mixed_size": _mixed_size,
    "scheduler": vgpu_scheduler.current,
    "scheduler_timed": vgpu_scheduler.is_timed,
    "scheduler_timing": vgpu_scheduler.current_timing,
    "vgpu_capabilities": _capabilities,
    "mig": mig_state.facts,
}
