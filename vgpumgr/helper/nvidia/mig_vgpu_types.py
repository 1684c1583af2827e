"""The vGPU types that lie in MIG GPU instances, as NVML tells them."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# INVALID_GPU_INSTANCE_PROFILE_ID: the type is not MIG-backed.
_NONE = 0xFFFFFFFF
_MIB = 1 << 20


def facts(session: NvmlSession, gpu: Any) -> list[dict[str, Any]] | None:
    """One object for each MIG-backed type of the GPU.

    None where the driver does not tell the GPU-instance profile of every type: what is missing
    from a list may then be there.
    """
    numbers = session.ask("nvmlDeviceGetSupportedVgpus", gpu)
    if not numbers:
        return None
    told = [_told(session, int(number)) for number in numbers]
    if any(each is None for each in told):
        return None
    return [each for each in told if each]


def _told(session: NvmlSession, number: int) -> dict[str, Any] | None:
    """One type, empty where it is not MIG-backed; the same on all GPUs, so it is asked for once."""
    if number not in session.types:
        profile = session.ask("nvmlVgpuTypeGetGpuInstanceProfileId", number)
        if profile is None:
            return None
        found = _type(session, number, int(profile)) if profile != _NONE else {}
        session.types[number] = found
    return session.types[number]


def _type(session: NvmlSession, number: int, profile: int) -> dict[str, Any]:
    size = session.ask("nvmlVgpuTypeGetFramebufferSize", number)
    return {
        "id": number,
        "name": session.ask("nvmlVgpuTypeGetName", number),
        "profile_id": profile,
        "memory_mib": None if size is None else int(size) // _MIB,
        "per_instance": session.ask("nvmlVgpuTypeGetMaxInstancesPerGpuInstance", number),
        "per_vm": session.ask("nvmlVgpuTypeGetMaxInstancesPerVm", number),
    }
