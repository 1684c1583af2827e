"""SR-IOV VFs as a part of a layout: all or none (NVIDIA), a count (Intel), an option (AMD)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.layout import mig_mode_part, target
from vgpumgr.layout.target import LayoutRefused, ReportedGpu, TargetState, gpu_name
from vgpumgr.model.gpu import GpuFacts, VfFacts
from vgpumgr.model.layout import VFS_MAX, GpuLayout, SetVfs
from vgpumgr.model.operation import Differs, InState, Observed, Unknown


def count(gpu: GpuFacts, goal: int) -> int:
    """The number of VFs that a goal means on this board."""
    return most(gpu) if goal == VFS_MAX else goal


def most(gpu: GpuFacts) -> int:
    """The most VFs: what the function says, and what the vendor supports where that is less."""
    allowed = [each for each in _allowed(gpu) if each <= gpu.sriov_total]
    return max(allowed, default=gpu.sriov_total)


def off(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetVfs]:
    """Another count goes through none, and MIG mode changes only without VFs."""
    if gpu.vfs and (len(gpu.vfs) != wanted.vfs or mig_mode_part.differs(gpu, wanted.mig)):
        yield SetVfs(count=0)


def on(gpu: GpuFacts, wanted: TargetState) -> Iterator[SetVfs]:
    """The change that is due."""
    if len(gpu.vfs) != wanted.vfs:
        yield SetVfs(count=wanted.vfs)


def differences(gpu: GpuFacts, goal: GpuLayout) -> Iterator[str]:
    """How the VFs are not as declared."""
    if goal.vfs is None:
        return
    wanted = count(gpu, goal.vfs)
    if goal.vfs == VFS_MAX and not wanted:
        yield "VFs: the board has none, wanted max"
    elif len(gpu.vfs) != wanted:
        yield f"VFs: {len(gpu.vfs)} on, wanted {wanted}"


def refuse(gpu: GpuFacts, goal: GpuLayout) -> None:
    """LayoutRefused for a count that this board and its driver cannot have."""
    if goal.vfs is None:
        return
    wanted = count(gpu, goal.vfs)
    if goal.vfs != 0:
        _refuse_without_sriov(gpu)
    if wanted == len(gpu.vfs):
        return
    refuse_count(gpu, wanted)
    _refuse_module_option(gpu, wanted)


def refuse_count(gpu: GpuFacts, wanted: int) -> None:
    """LayoutRefused for a count that could not be turned on from none."""
    if wanted > gpu.sriov_total:
        raise _refused(gpu, f"{wanted} VFs are more than the {gpu.sriov_total} of {gpu_name(gpu)}")
    if wanted and is_nvidia(gpu) and wanted != gpu.sriov_total:
        raise _refused(gpu, f"{gpu_name(gpu)} turns all its {gpu.sriov_total} VFs on, or none")
    if wanted and _allowed(gpu) and wanted not in _allowed(gpu):
        counts = ", ".join(map(str, _allowed(gpu)))
        message = f"{gpu_name(gpu)} supports {counts} VFs, not {wanted}"
        raise _refused(gpu, message, f"declare vfs: {' or '.join(map(str, _allowed(gpu)))}")


def apply(gpu: GpuFacts, change: SetVfs) -> GpuFacts:
    """The GPU with that number of VFs; an address is empty where the host did not tell of it."""
    vfs = tuple(
        VfFacts(number=number, address=gpu.vf_address(number)) for number in range(change.count)
    )
    return target.after_rebind(replace(gpu, vfs=vfs))


def verb(change: SetVfs) -> tuple[str, Mapping[str, object]]:
    """The helper's verb and arguments."""
    return "vfs_set", {"count": change.count}


def look(seen: ReportedGpu, change: SetVfs) -> Observed:
    """Are so many VFs on?"""
    if seen.vfs is None:
        return Unknown("the VFs could not be read")
    return InState() if seen.vfs == change.count else Differs(f"{seen.vfs} VFs are on")


def summary(change: SetVfs) -> str:
    """A line for people."""
    return f"turn {change.count} VFs on" if change.count else "turn the VFs off"


def is_nvidia(gpu: GpuFacts) -> bool:
    """Is it NVIDIA's driver that makes the VFs?"""
    return gpu.vendor_device.startswith("10de:")


def _allowed(gpu: GpuFacts) -> tuple[int, ...]:
    board = catalog.sriov_board(gpu.model)
    return board.allowed_vf_counts if board else ()


def _refuse_without_sriov(gpu: GpuFacts) -> None:
    board = catalog.board(gpu.model)
    if board is not None and board.host_mode == "mdev-on-pf":
        message = f"{gpu_name(gpu)} creates its vGPUs on the physical function, without VFs"
        raise _refused(gpu, message, "leave vfs out, or narrow the rule with model:")
    if not gpu.sriov_total and not gpu.vfs:
        raise LayoutRefused(
            f"{gpu_name(gpu)} shows no SR-IOV",
            why="the board has none, or firmware or driver keep it off",
            next="look at the firmware's SR-IOV setting, or narrow the rule with model:",
        )


def _refuse_module_option(gpu: GpuFacts, wanted: int) -> None:
    board = catalog.sriov_board(gpu.model)
    if board is None or board.numvfs_writable:
        return
    raise LayoutRefused(
        f"{board.driver} alone creates the VFs of {gpu_name(gpu)}, when it loads",
        why=f"their number is a module option, and {len(gpu.vfs)} are on",
        next=f"write `options {board.driver} vf_num={wanted}` to /etc/modprobe.d/"
        f"{board.driver}.conf on the host and reload the module with no VM on its VFs",
    )


def _refused(
    gpu: GpuFacts, message: str, next_step: str = "declare vfs: max, or vfs: 0"
) -> LayoutRefused:
    return LayoutRefused(
        message, why=f"{len(gpu.vfs)} of {gpu.sriov_total} VFs are on", next=next_step
    )
