"""One small file per *framework*, a way of giving a VM a GPU.

Every framework has one life cycle: ``offers`` says what a GPU can make, ``realise`` makes it on
the host, ``look`` reads it back, ``describe`` gives the hostdevs, ``release`` takes it back and
``holds`` says whether anything is left of it. They choose helper verbs; the mechanics live in the
helper. ``could`` names what a GPU would make if a Layout partitioned it otherwise.
"""

from vgpumgr.gpu.gpu_framework import GpuFramework, framework, offers
from vgpumgr.gpu.memory_slots import (
    compute_slices,
    slice_slots,
    slices_and_media,
    slots,
    with_budget,
)
from vgpumgr.gpu.passthrough_framework import companions
from vgpumgr.gpu.potential_profiles import potential
from vgpumgr.gpu.uncatalogued import learned_profiles, no_mig_vgpus

__all__ = [
    "GpuFramework",
    "companions",
    "compute_slices",
    "framework",
    "learned_profiles",
    "no_mig_vgpus",
    "offers",
    "potential",
    "slice_slots",
    "slices_and_media",
    "slots",
    "with_budget",
]
