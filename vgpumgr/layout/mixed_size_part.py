"""Mixed-size mode as a part of a layout: vGPUs of several sizes; VFs on, MIG off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.layout.target import LayoutRefused, ReportedGpu, TargetState, gpu_name, unread
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, SetMixedSize
from vgpumgr.model.operation import Differs, InState, Observed, Unknown


def off(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetMixedSize]:
    """Back to same-size, before a scheduler that does not go with mixed sizes."""
    if gpu.mixed_size and not wanted.mixed_size:
        yield SetMixedSize(enabled=False)


def on(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetMixedSize]:
    """The change that is due."""
    if wanted.mixed_size and not gpu.mixed_size:
        yield SetMixedSize(enabled=True)


def differences(gpu: GpuFacts, goal: GpuLayout) -> Iterator[str]:
    """How the mode is not as declared."""
    if goal.mixed_size is None:
        return
    if gpu.mixed_size is None:
        if goal.mixed_size or _unread(gpu):
            found = "cannot be read" if _unread(gpu) else "not available"
            yield f"mixed-size mode: {found}, wanted {_word(goal.mixed_size)}"
    elif gpu.mixed_size != goal.mixed_size:
        yield f"mixed-size mode: {_word(gpu.mixed_size)}, wanted {_word(goal.mixed_size)}"


def refuse(gpu: GpuFacts, goal: GpuLayout, wanted: TargetState) -> None:
    """LayoutRefused where board, driver, MIG or missing VFs forbid the mode."""
    if goal.mixed_size is None:
        return
    if _unread(gpu):
        raise unread(gpu, "mixed-size mode")
    if not goal.mixed_size:
        return
    board = catalog.board(gpu.model)
    if board is None or not board.mixed_size:
        raise _refused(gpu, "the board has no mixed-size mode", "leave mixed_size out")
    if wanted.mig:
        raise _refused(gpu, "MIG and mixed-size mode exclude each other", "declare mig: false")
    if not wanted.vfs:
        raise _refused(gpu, "the mode is lost without VFs", "add vfs: max")
    if gpu.mixed_size is None and gpu.vfs and not (gpu.mig and gpu.mig.enabled):
        raise _refused(gpu, "its driver has no such mode", "install vGPU 17 (R550) or later")


def apply(gpu: GpuFacts, change: SetMixedSize) -> GpuFacts:
    """The mode is as told."""
    return replace(gpu, mixed_size=change.enabled)


def verb(change: SetMixedSize) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "mixed_size_set", {"enabled": change.enabled}


def look(seen: ReportedGpu, change: SetMixedSize) -> Observed:
    """Is the mode in the wanted state?"""
    mode = seen.nvml.get("mixed_size") if seen.nvml else None
    if mode is None:
        return Unknown("the mixed-size mode could not be read")
    return InState() if mode == change.enabled else Differs(f"mixed-size mode is {_word(mode)}")


def summary(change: SetMixedSize) -> str:
    """A line for people."""
    return f"turn mixed-size mode {_word(change.enabled)}"


def _unread(gpu: GpuFacts) -> bool:
    """The driver answers every GPU's UUID: without one it was not asked."""
    board = catalog.board(gpu.model)
    return bool(board and board.mixed_size) and gpu.mixed_size is None and gpu.uuid is None


def _refused(gpu: GpuFacts, why: str, next_step: str) -> LayoutRefused:
    return LayoutRefused(f"{gpu_name(gpu)} cannot mix sizes", why=why, next=next_step)


def _word(on: bool) -> str:
    return "on" if on else "off"
