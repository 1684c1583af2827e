"""The facts of NVML about each GPU that NVIDIA's driver holds, its health included."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

from vgpumgr.helper import pci
from vgpumgr.helper.errors import ProbeParts
from vgpumgr.helper.facts import gpu_readings
from vgpumgr.helper.facts.gpu_readings import Readings
from vgpumgr.helper.nvidia import mig_state, nvml_session, vgpu_scheduler
from vgpumgr.helper.nvidia.nvml_session import NvmlSession
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
    found = {"address": address, **dict.fromkeys(_READERS)}
    failed = [] if gpu is not None else [_failure("handle", session)]
    for name, read in _READERS.items() if gpu is not None else ():
        found[name] = read(session, gpu)
        if name in _NAMED and found[name] is None and session.code and not session.absent():
            failed.append(_failure(name, session))
    seen, unread = gpu_readings.read(session, gpu) if gpu is not None else (None, False)
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
    "vgpu_capabilities": _capabilities,
    "mig": mig_state.facts,
}
