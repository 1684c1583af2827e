"""What is lost when the driver lets go of a GPU and takes it again (VFs toggled, GPU reset)."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.model.gpu import GpuFacts


def after(gpu: GpuFacts) -> GpuFacts:
    """GPU instances and mixed-size mode are gone, the scheduler's policy is the driver's choice.

    Source: behaviour §4, §7, §8 (captures of a CubeCOS host; NVIDIA MIG User Guide).
    """
    return replace(
        gpu,
        mig=gpu.mig and replace(gpu.mig, instances=()),
        mixed_size=None if gpu.mixed_size is None else False,
        scheduler=None,
    )
