"""The policy by which vGPUs share a GPU's time, and its timing. Neither survives a reboot."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import errors, wanted_state
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# NVML_VGPU_SCHEDULER_POLICY_*: 1, 2 and 3
_POLICIES = dict(enumerate(wanted_state.POLICIES, start=1))
BEST_EFFORT, FIXED_SHARE = "best-effort", "fixed-share"
# NVML_VGPU_SCHEDULER_ARR_*: adaptive round robin as the driver likes, off (slices), or on.
_ARR_DEFAULT, _ARR_OFF, _ARR_ON = 0, 1, 2
_NS_OF_US, _NS_OF_S = 1000, 1_000_000_000


def current(session: NvmlSession, gpu: Any) -> str | None:
    """The policy's name; None where the driver does not say."""
    return _name(session.ask("nvmlDeviceGetVgpuSchedulerState", gpu))


def is_timed(session: NvmlSession, gpu: Any) -> bool | None:
    """Whether the timing is told; None where there is no scheduler."""
    state = session.ask("nvmlDeviceGetVgpuSchedulerState", gpu)
    return None if state is None else True


def current_timing(session: NvmlSession, gpu: Any) -> list[int] | None:
    """As ``scheduler_set`` takes it; None where the driver does not say."""
    state = session.ask("nvmlDeviceGetVgpuSchedulerState", gpu)
    return None if state is None else _timing(state)


def _timing(state: Any) -> list[int]:
    """The driver tells the slice that follows from a frequency."""
    mode = int(state.arrMode)
    if mode == _ARR_ON:
        found = state.schedulerParams.vgpuSchedDataWithARR
        slice_ns = max(1, int(found.timeslice))
        return [round(_NS_OF_S / slice_ns), int(found.avgFactor)]
    if mode == _ARR_OFF:
        return [int(state.schedulerParams.vgpuSchedData.timeslice) // _NS_OF_US]
    return []


def put(
    session: NvmlSession, gpu: Any, address: str, policy: str, timing: list[int] | None = None
) -> None:
    """Have this policy, by its name, and this timing where one is given, read back; ``refused``
    where there is no scheduler to set, or its board or driver cannot be timed so.
    """
    message = f"the scheduler of {address} could not be read"
    state = session.tell(message, "nvmlDeviceGetVgpuSchedulerState", gpu)
    now = _name(state)
    if now is None:
        why = "its driver is not a vGPU host driver, or the board has one policy only"
        raise HelperError(errors.REFUSED, f"{address} has no vGPU scheduler to set", why)
    if now != policy or (timing is not None and _timing(state) != timing):
        _change(session, gpu, address, policy, timing)


def _change(
    session: NvmlSession, gpu: Any, address: str, policy: str, timing: list[int] | None
) -> None:
    if policy == FIXED_SHARE and session.ask("nvmlDeviceGetVgpuHeterogeneousMode", gpu) == 1:
        raise HelperError(
            errors.REFUSED,
            f"{address} is in mixed-size mode",
            "fixed-share needs vGPUs of one size: turn mixed-size mode off first",
        )
    message = f"the scheduler of {address} was not set"
    wanted = session.library.c_nvmlVgpuSchedulerSetState_t()
    wanted.schedulerPolicy = next(number for number, name in _POLICIES.items() if name == policy)
    if timing:
        _require_within(session, gpu, address, policy, timing)
        _time(wanted, timing)
    session.must(message, "nvmlDeviceSetVgpuSchedulerState", gpu, wanted)
    found = session.ask("nvmlDeviceGetVgpuSchedulerState", gpu)
    if _name(found) != policy:
        raise HelperError(errors.REFUSED, message, f"it reads {_name(found)} afterwards")
    if timing is not None and _timing(found) != timing:
        raise HelperError(errors.REFUSED, message, f"its timing reads {_timing(found)} afterwards")


def _time(wanted: Any, timing: list[int]) -> None:
    if len(timing) == 1:
        wanted.enableARRMode = _ARR_OFF
        wanted.schedulerParams.vgpuSchedData.timeslice = timing[0] * _NS_OF_US
        return
    wanted.enableARRMode = _ARR_ON
    wanted.schedulerParams.vgpuSchedDataWithARR.frequency = timing[0]
    wanted.schedulerParams.vgpuSchedDataWithARR.avgFactor = timing[1]


def _require_within(
    session: NvmlSession, gpu: Any, address: str, policy: str, timing: list[int]
) -> None:
    message = f"the scheduler of {address} cannot be timed so"
    if policy == BEST_EFFORT:
        raise HelperError(errors.REFUSED, message, "best-effort has no time slices")
    bounds = session.ask("nvmlDeviceGetVgpuSchedulerCapabilities", gpu)
    if bounds is None:
        raise HelperError(errors.REFUSED, message, "its driver tells no bounds: it cannot be timed")
    if len(timing) == 1:
        least, most = int(bounds.minTimeslice), int(bounds.maxTimeslice)
        if not least <= timing[0] * _NS_OF_US <= most:
            why = f"slices are {least // _NS_OF_US} to {most // _NS_OF_US} microseconds"
            raise HelperError(errors.REFUSED, message, why)
        return
    if not int(bounds.isArrModeSupported):
        raise HelperError(errors.REFUSED, message, "it has no adaptive round robin")
    hertz = int(bounds.minFrequencyForARR), int(bounds.maxFrequencyForARR)
    factors = int(bounds.minAvgFactorForARR), int(bounds.maxAvgFactorForARR)
    if not hertz[0] <= timing[0] <= hertz[1] or not factors[0] <= timing[1] <= factors[1]:
        why = f"{hertz[0]} to {hertz[1]} Hz, averaging {factors[0]} to {factors[1]}"
        raise HelperError(errors.REFUSED, message, why)


def _name(state: Any) -> str | None:
    return None if state is None else _POLICIES.get(int(state.schedulerPolicy))
