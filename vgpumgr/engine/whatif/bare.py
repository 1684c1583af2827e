"""GPUs and VFs as they are once nothing is left on them. Pure."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.model.gpu import GpuFacts, VfFacts


def uncounted(gpu: GpuFacts) -> GpuFacts:
    """Without the driver's counts of what it would still make: they are of before."""
    return replace(
        gpu,
        mdev_types=tuple(replace(each, available=None) for each in gpu.mdev_types),
        vfs=tuple(map(_uncounted, gpu.vfs)),
    )


def emptied(vf: VfFacts) -> VfFacts:
    """A VF without its vGPU."""
    if vf.vendor is None:
        return vf
    return replace(vf, vendor=replace(vf.vendor, type_id=0, instance=None, placement_id=None))


def _uncounted(vf: VfFacts) -> VfFacts:
    types = tuple(replace(each, available=None) for each in vf.mdev_types)
    return replace(vf, mdev_types=types, vendor=vf.vendor and replace(vf.vendor, creatable=None))
