"""MIG mode as a part of a layout: changed with VFs off and without GPU instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.layout import target
from vgpumgr.layout.target import LayoutRefused, ReportedGpu, TargetState, gpu_name, unread
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, SetMigMode
from vgpumgr.model.operation import Differs, InState, Observed, Unknown


def differs(gpu: GpuFacts, enabled: bool) -> bool:
    """Is the mode, or what it becomes with the next reset, another one?"""
    return gpu.mig is not None and {gpu.mig.enabled, gpu.mig.pending} != {enabled}


def switch(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetMigMode]:
    """The change that is due."""
    if differs(gpu, wanted.mig):
        yield SetMigMode(enabled=wanted.mig)


def differences(gpu: GpuFacts, goal: GpuLayout) -> Iterator[str]:
    """How the mode is not as declared."""
    if goal.mig is None:
        return
    if gpu.mig is None:
        if goal.mig or _capable(gpu):
            found = "cannot be read" if _capable(gpu) else "the board has none"
            yield f"MIG mode: {found}, wanted {_word(goal.mig)}"
    elif differs(gpu, goal.mig):
        pending = "" if gpu.mig.pending == gpu.mig.enabled else " until the next reset"
        yield f"MIG mode: {_word(gpu.mig.enabled)}{pending}, wanted {_word(goal.mig)}"


def refuse(gpu: GpuFacts, goal: GpuLayout) -> None:
    """LayoutRefused for a board without MIG, and for a mode that could not be read."""
    if gpu.mig is not None or goal.mig is None:
        return
    if _capable(gpu):
        raise unread(gpu, "MIG mode")
    if goal.mig:
        raise LayoutRefused(
            f"{gpu_name(gpu)} has no MIG",
            why="the board cannot be cut into GPU instances",
            next="narrow the rule with model: or devices:",
        )


def apply(gpu: GpuFacts, change: SetMigMode) -> GpuFacts:
    """The mode is as told, and whatever a reset clears is gone."""
    assert gpu.mig is not None, "only a GPU with MIG is switched"
    mig = replace(gpu.mig, enabled=change.enabled, pending=change.enabled)
    return target.after_rebind(replace(gpu, mig=mig))


def verb(change: SetMigMode) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "mig_mode_set", {"enabled": change.enabled}


def look(seen: ReportedGpu, change: SetMigMode) -> Observed:
    """Is the mode in the wanted state, with no reset due?"""
    mig = seen.mig
    if mig is None:
        return Unknown("the MIG mode could not be read")
    if {mig["enabled"], mig["pending"]} == {change.enabled}:
        return InState()
    return Differs(f"MIG mode is {mig['enabled']}, {mig['pending']} after the next reset")


def summary(change: SetMigMode) -> str:
    """A line for people."""
    return f"turn MIG mode {_word(change.enabled)}"


def _capable(gpu: GpuFacts) -> bool:
    board = catalog.board(gpu.model)
    return board.mig_capable if board else False


def _word(on: bool) -> str:
    return "on" if on else "off"
