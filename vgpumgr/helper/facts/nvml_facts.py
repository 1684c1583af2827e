"""What NVIDIA's library says of the GPUs that its driver holds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from vgpumgr.helper.facts import health
from vgpumgr.helper.nvidia import mig, nvml, scheduler
from vgpumgr.helper.nvidia.nvml import Session
from vgpumgr.helper.parts import Parts
from vgpumgr.helper.system import System

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


def gather(system: System, addresses: Sequence[str], parts: Parts) -> dict[str, Any]:
    """Driver version and one entry per address; a field that is not answered is None."""
    with nvml.session(system) as session:
        driver = session.ask("nvmlSystemGetDriverVersion")
        gpus = [_gpu(system, session, each, parts) for each in addresses]
        return {"driver": driver, "gpus": gpus}


def _gpu(system: System, session: Session, address: str, parts: Parts) -> dict[str, Any]:
    session.codes.clear()
    gpu = session.ask("nvmlDeviceGetHandleByPciBusId", nvml.bus_id(address))
    found = {"address": address, **dict.fromkeys(_READERS)}
    failed = [] if gpu is not None else [_failure("handle", session)]
    for name, read in _READERS.items() if gpu is not None else ():
        found[name] = read(session, gpu)
        if name in _NAMED and found[name] is None and session.code and not session.absent():
            failed.append(_failure(name, session))
    found.update(health.of(system, session, gpu, address))
    if failed and found["health"] != health.LOST:
        parts.miss(f"nvml {address}", ", ".join(failed))
    return found


def _failure(name: str, session: Session) -> str:
    return f"{name}: NVML code {session.code}"


def _memory_mib(session: Session, gpu: Any) -> int | None:
    memory = session.ask("nvmlDeviceGetMemoryInfo", gpu)
    return None if memory is None else int(memory.total) // _MIB


def _ecc(session: Session, gpu: Any) -> bool | None:
    modes = session.ask("nvmlDeviceGetEccMode", gpu)
    return None if modes is None else bool(modes[0] == 1)


def _module_id(session: Session, gpu: Any) -> int | None:
    # A place of our own: pynvml's default one is shared by all threads.
    number = ctypes.c_uint()
    code = session.ask("nvmlDeviceGetModuleId", gpu, ctypes.byref(number))
    return int(number.value) if code == session.library.NVML_SUCCESS else None


def _fabric_state(session: Session, gpu: Any) -> str | None:
    info = session.library.c_nvmlGpuFabricInfo_v2_t()
    if session.ask("nvmlDeviceGetGpuFabricInfoV", gpu, ctypes.byref(info)) is None:
        info = session.library.c_nvmlGpuFabricInfo_t()
        if session.ask("nvmlDeviceGetGpuFabricInfo", gpu, ctypes.byref(info)) is None:
            return None
    return _FABRIC_STATES.get(int(info.state))


def _nvlinks(session: Session, gpu: Any) -> int | None:
    """How many NVLinks are active; NVML refuses a number that the board does not have."""
    if session.ask("nvmlDeviceGetNvLinkState", gpu, 0) is None:
        return None
    links = range(session.library.NVML_NVLINK_MAX_LINKS)
    return sum(int(session.ask("nvmlDeviceGetNvLinkState", gpu, link) == 1) for link in links)


def _mixed_size(session: Session, gpu: Any) -> bool | None:
    mode = session.ask("nvmlDeviceGetVgpuHeterogeneousMode", gpu)
    return None if mode is None else bool(mode == 1)


def _capabilities(session: Session, gpu: Any) -> list[str] | None:
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
    "scheduler": scheduler.current,
    "vgpu_capabilities": _capabilities,
    "mig": mig.facts,
}
