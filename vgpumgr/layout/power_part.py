"""Power limit and locked clocks as parts of a layout: the driver forgets both when it lets go.

Both change while guests run. Source: nvml.h, nvmlDeviceSetPowerManagementLimit ("not persistent
across reboots or driver unloads"), nvmlDeviceSetGpuLockedClocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpumgr.layout.target import LayoutRefused, ReportedGpu, TargetState, gpu_name, unread
from vgpumgr.model.gpu import GpuFacts, with_power
from vgpumgr.model.layout import (
    POWER_DEFAULT,
    UNLOCKED,
    ClockRange,
    GpuLayout,
    LockClocks,
    SetPowerLimit,
)
from vgpumgr.model.operation import Differs, InState, Observed, Unknown


def chosen_limit(gpu: GpuFacts) -> int | None:
    """The limit in watts that was chosen; None: the board's default, or not told."""
    power = gpu.power
    return None if power is None or power.limit_w == power.default_w else power.limit_w


def chosen_clocks(gpu: GpuFacts) -> ClockRange | None:
    """The range in MHz to which the clocks are locked; None: they are not, or it is not told."""
    return (gpu.power.locked_clocks or None) if gpu.power is not None else None


def limit_watts(gpu: GpuFacts, goal: int) -> int:
    """The limit that a goal means on this board."""
    return gpu.power.default_w if gpu.power is not None and goal == POWER_DEFAULT else goal


def switch(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetPowerLimit | LockClocks]:
    """The changes that are due."""
    if gpu.power is None:
        return
    if wanted.locked_clocks is not None and gpu.power.locked_clocks != wanted.locked_clocks:
        yield LockClocks(range=wanted.locked_clocks, before=gpu.power.locked_clocks)
    if wanted.power_limit is not None:
        watts = limit_watts(gpu, wanted.power_limit)
        if gpu.power.limit_w != watts:
            yield SetPowerLimit(watts=watts, before=gpu.power.limit_w)


def differences(gpu: GpuFacts, goal: GpuLayout) -> Iterator[str]:
    """How limit and clocks are not as declared."""
    power = gpu.power
    if goal.power_limit is not None:
        watts = limit_watts(gpu, goal.power_limit)
        if power is None:
            yield f"power limit: cannot be read, wanted {_limit(goal.power_limit)}"
        elif power.limit_w != watts:
            yield f"power limit: {power.limit_w} W enforced, wanted {watts} W"
    if goal.locked_clocks is not None:
        if power is None:
            yield f"locked clocks: cannot be read, wanted {clocks_text(goal.locked_clocks)}"
        elif power.locked_clocks != goal.locked_clocks:
            now, then = clocks_text(power.locked_clocks), clocks_text(goal.locked_clocks)
            yield f"locked clocks: {now}, wanted {then}"


def refuse(gpu: GpuFacts, goal: GpuLayout) -> None:
    """LayoutRefused where the board cannot have the limit; it is never moved into its bounds."""
    if goal.power_limit is None and goal.locked_clocks is None:
        return
    if gpu.power is None and gpu.uuid is None:
        raise unread(gpu, "the power limit")
    if gpu.power is None:
        raise LayoutRefused(
            f"{gpu_name(gpu)} has no power limit to set",
            why="its driver tells of none",
            next="leave power out",
        )
    if not goal.power_limit:
        return
    least, most = gpu.power.least_w, gpu.power.most_w
    if not least <= goal.power_limit <= most:
        raise LayoutRefused(
            f"{goal.power_limit} W is no power limit of {gpu_name(gpu)}",
            why=f"its driver takes {least} to {most} W",
            next=f"declare power: {{limit_watts: {min(max(least, goal.power_limit), most)}}}",
        )


def apply(gpu: GpuFacts, change: SetPowerLimit | LockClocks) -> GpuFacts:
    """As told."""
    match change:
        case SetPowerLimit(watts=watts):
            return with_power(gpu, limit_w=watts)
        case LockClocks(range=range_mhz):
            return with_power(gpu, locked_clocks=range_mhz)


def reverse(change: SetPowerLimit | LockClocks) -> SetPowerLimit | LockClocks:
    """What undoes it."""
    match change:
        case SetPowerLimit(watts=watts, before=before):
            return SetPowerLimit(watts=before, before=watts)
        case LockClocks(range=range_mhz, before=was):
            return LockClocks(range=was, before=range_mhz)


def verb(change: SetPowerLimit | LockClocks) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    match change:
        case SetPowerLimit(watts=watts):
            return "power_limit_set", {"watts": watts}
        case LockClocks(range=range_mhz):
            return "clocks_lock", {"range": list(range_mhz)}


def look(seen: ReportedGpu, change: SetPowerLimit | LockClocks) -> Observed:
    """Is it enforced? Of locked clocks the host's own note tells: NVML has no question for them."""
    power = seen.nvml.get("power") if seen.nvml else None
    if not isinstance(power, Mapping):
        return Unknown("the power limit could not be read")
    match change:
        case SetPowerLimit(watts=watts):
            now = power.get("limit_w")
            return InState() if now == watts else Differs(f"the enforced limit is {now} W")
        case LockClocks(range=range_mhz):
            there = tuple(power.get("locked_clocks") or ())
            same = there == range_mhz
            return InState() if same else Differs(f"the clocks are {clocks_text(there)}")


def summary(change: SetPowerLimit | LockClocks) -> str:
    """A line for people."""
    match change:
        case SetPowerLimit(watts=watts):
            return f"set the power limit to {watts} W"
        case LockClocks(range=range_mhz):
            return lock_text(range_mhz)


def lock_text(range_mhz: ClockRange) -> str:
    """``lock the clocks to 210 to 1200 MHz``."""
    return f"lock the clocks to {clocks_text(range_mhz)}" if range_mhz else "unlock the clocks"


def clocks_text(range_mhz: ClockRange) -> str:
    """``210 to 1200 MHz``, or that they are not locked."""
    return f"{range_mhz[0]} to {range_mhz[1]} MHz" if range_mhz != UNLOCKED else "not locked"


def _limit(watts: int) -> str:
    return "the default" if watts == POWER_DEFAULT else f"{watts} W"
