"""The *frameworks*, each a way of giving a VM a GPU, and what a GPU has to give through them.

Every framework has one life cycle: ``offers`` says what a GPU can make, ``realise`` makes it on
the host, ``look`` reads it back, ``describe`` gives the hostdevs, ``release`` takes it back and
``holds`` says whether anything is left of it. They choose helper verbs; the mechanics live in the
helper. ``potential`` names what a GPU would make if a Layout partitioned it otherwise.
"""

from vgpumgr.gpu.gpu_framework import GpuFramework
from vgpumgr.gpu.gpu_offers import (
    compute_slices,
    framework,
    offers,
    potential,
    slice_slots,
    slices_and_media,
    slots,
    with_budget,
)
from vgpumgr.gpu.pci_frameworks import companions
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
