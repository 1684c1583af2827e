"""Whether a GPU is fit for use, as its driver and its configuration space tell."""

from __future__ import annotations

import contextlib
from typing import Any

from vgpumgr.helper import pci
from vgpumgr.helper.nvidia.nvml import Session
from vgpumgr.helper.system import System

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


def of(system: System, session: Session, gpu: Any, address: str) -> dict[str, str | None]:
    """``health`` and ``health_detail``; call it last: it reads which questions NVML refused.

    ``gpu`` None: NVML gave no handle. ``health`` is null where nothing can be said.
    """
    health, detail = _lost(system, session, address) or _asked(session, gpu)
    return {"health": health, "health_detail": detail}


def _lost(system: System, session: Session, address: str) -> tuple[str, str] | None:
    if session.said("NVML_ERROR_GPU_IS_LOST"):
        return LOST, _GONE
    with contextlib.suppress(OSError):
        if pci.lost(system, address):
            return LOST, "its configuration space reads all ones"
    return None


def _asked(session: Session, gpu: Any) -> tuple[str | None, str]:
    """A board to be replaced comes first, then what the driver asks for, then what waits.

    What a board does not have is no fault; what it has and refuses to tell makes it unknown.
    """
    if gpu is None:
        return UNKNOWN, f"NVML gives no handle: {_codes(session)}"
    action = _recovery_action(session, gpu)
    rows, rows_unread = _told(session, "nvmlDeviceGetRemappedRows", gpu)
    pages, pages_unread = _told(session, "nvmlDeviceGetRetiredPagesPendingStatus", gpu)
    if session.said("NVML_ERROR_GPU_IS_LOST"):
        return LOST, _GONE
    if rows and rows[3]:
        return FAILED, "a memory row could not be remapped: replace the board"
    if action in _ACTIONS:
        return _ACTIONS[action]
    if session.said("NVML_ERROR_RESET_REQUIRED"):
        return RESET_REQUIRED, "NVML says that the GPU requires a reset"
    if rows and rows[2]:
        return RESET_REQUIRED, "remapped memory rows wait for a reset"
    if pages == 1:
        return RESET_REQUIRED, "retired memory pages wait for a reset"
    if rows_unread or pages_unread:
        return UNKNOWN, f"NVML does not report its memory: {_codes(session)}"
    return OK, ""


def _told(session: Session, function: str, gpu: Any) -> tuple[Any, bool]:
    """What a function returns, and whether it was refused by a board that has such a thing."""
    found = session.ask(function, gpu)
    return found, bool(session.code) and not session.absent()


def _recovery_action(session: Session, gpu: Any) -> int:
    field = session.library.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    values = session.ask("nvmlDeviceGetFieldValues", gpu, [field])
    if not values or values[0].nvmlReturn != session.library.NVML_SUCCESS:
        return 0
    return int(values[0].value.uiVal)


def _codes(session: Session) -> str:
    return ", ".join(f"NVML code {code}" for code in sorted(session.codes)) or "it does not say why"
