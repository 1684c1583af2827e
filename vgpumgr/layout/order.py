"""The order in which the parts of a GPU change: the boot order of a host, down and up again.

Down: VFs off, then GPU instances. Then MIG mode, which takes neither. Up: VFs on (the driver lets
go of the GPU, so that whatever stands on it comes after), then either mixed-size mode or GPU
instances with their compute instances. vGPU types and mdevs belong to VMs: a layout is applied
where there are none. Evidence: behaviour §4, §7, §8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vgpumgr.layout import gpu_instances, mig_mode, mixed_size, scheduler, vfs
from vgpumgr.layout.parts import apply_change
from vgpumgr.layout.wanted import Wanted
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import PartChange

Stage = Callable[[GpuFacts, Wanted], Iterable[PartChange]]

ORDER: tuple[Stage, ...] = (
    vfs.off,
    gpu_instances.clear,
    mig_mode.switch,
    vfs.on,
    mixed_size.off,
    scheduler.switch,
    mixed_size.on,
    gpu_instances.settle,
)


def changes(gpu: GpuFacts, wanted: Wanted) -> tuple[PartChange, ...]:
    """What leads from the facts to what is wanted.

    Each stage is asked about the GPU as the stages before it leave it. Raises LayoutRefused where
    declared GPU instances have no room.
    """
    due: list[PartChange] = []
    for stage in ORDER:
        for change in list(stage(gpu, wanted)):
            due.append(change)
            gpu = apply_change(gpu, change)
    return tuple(due)
