"""The policy by which vGPUs share a GPU's time. It does not survive a reboot."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import errors, wanted_state
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# NVML_VGPU_SCHEDULER_POLICY_*: 1, 2 and 3
_POLICIES = dict(enumerate(wanted_state.POLICIES, start=1))
FIXED_SHARE = "fixed-share"


def current(session: NvmlSession, gpu: Any) -> str | None:
    """The policy's name; None where the driver does not say."""
    return _name(session.ask("nvmlDeviceGetVgpuSchedulerState", gpu))


def put(session: NvmlSession, gpu: Any, address: str, policy: str) -> None:
    """Have this policy, by its name, read back; ``refused`` where there is no scheduler to set."""
    message = f"the scheduler of {address} could not be read"
    now = _name(session.tell(message, "nvmlDeviceGetVgpuSchedulerState", gpu))
    if now is None:
        why = "its driver is not a vGPU host driver, or the board has one policy only"
        raise HelperError(errors.REFUSED, f"{address} has no vGPU scheduler to set", why)
    if now != policy:
        _change(session, gpu, address, policy)


def _change(session: NvmlSession, gpu: Any, address: str, policy: str) -> None:
    if policy == FIXED_SHARE and session.ask("nvmlDeviceGetVgpuHeterogeneousMode", gpu) == 1:
        raise HelperError(
            errors.REFUSED,
            f"{address} is in mixed-size mode",
            "fixed-share needs vGPUs of one size: turn mixed-size mode off first",
        )
    message = f"the scheduler of {address} was not set"
    wanted = session.library.c_nvmlVgpuSchedulerSetState_t()
    wanted.schedulerPolicy = next(number for number, name in _POLICIES.items() if name == policy)
    session.must(message, "nvmlDeviceSetVgpuSchedulerState", gpu, wanted)
    found = current(session, gpu)
    if found != policy:
        raise HelperError(errors.REFUSED, message, f"it reads {found} afterwards")


def _name(state: Any) -> str | None:
    return None if state is None else _POLICIES.get(int(state.schedulerPolicy))
