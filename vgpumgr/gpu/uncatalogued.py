"""GPUs outside the catalogue that have VFs: what their own files report, and nothing guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.gpu import reported_mig
from vgpumgr.model.gpu import GpuFacts

# The end of a vGPU type's name: ``-4Q``, ``-2B4``. Its number is the frame buffer in GiB, of less
# than 4 TiB: slots are counted by it.
_SIZE = re.compile(r"-([1-9]\d{0,2}|[1-3]\d{3})[A-Z]\d*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class VfType:
    """A type that VFs carry by themselves. ``series`` is the letter of its name."""

    type_id: str
    profile: str
    gib: int
    series: str


def is_unlisted(gpu: GpuFacts) -> bool:
    """Does the catalogue not know it?"""
    return catalog.board(gpu.model) is None and catalog.sriov_board(gpu.model) is None


def vf_types(gpu: GpuFacts) -> tuple[VfType, ...]:
    """The known types whose name tells their size."""
    return tuple(_read(gpu.vf_types))


def plain_profile(gpu: GpuFacts) -> str:
    """The profile of one of its plain VFs (``8086:10c9-1of4``); empty where it has none."""
    if not gpu.vfs or not is_unlisted(gpu) or not all(vf.is_plain for vf in gpu.vfs):
        return ""
    return catalog.vf_profile(gpu.model, len(gpu.vfs))


def no_mig_vgpus(gpu: GpuFacts) -> str:
    """Why no vGPU is made in the GPU instances of a board outside the catalogue; empty elsewhere,
    and where its driver tells which types lie in them.
    """
    if gpu.mig is None or gpu.mig.types or not is_unlisted(gpu):
        return ""
    if not gpu.mig.profiles:
        told = "no MIG profile yet"
    elif gpu.mig.types is None:
        told = "MIG profiles, but not which vGPUs they hold"
    else:
        now = "" if gpu.mig.enabled else " while MIG is off"
        told = f"MIG profiles, but no vGPU type that is backed by one{now}"
    return f"it is not in the catalogue, and its driver reports {told}"


def learned_profiles(gpu: GpuFacts) -> frozenset[str]:
    """Names that users may write because a host told them."""
    mdev_types = (gpu.mdev_types, *(vf.mdev_types for vf in gpu.vfs))
    names = {each.profile for types in mdev_types for each in types}
    names |= {each.profile for each in vf_types(gpu)} | {*reported_mig.names(gpu)}
    return frozenset(names | {plain_profile(gpu)}) - {""}


def complete_types(gpu: GpuFacts) -> Mapping[str, str] | None:
    """``vf_types`` where they are all there is; None where a vGPU hides some, or a list failed.

    In MIG mode the lists have only what the GPU instances of the moment can make.
    """
    if not gpu.vf_types or (gpu.mig is not None and gpu.mig.enabled):
        return None
    vendors = [vf.vendor for vf in gpu.vfs]
    told = all(each and each.type_id == 0 and each.creatable is not None for each in vendors)
    return gpu.vf_types if told else None


def _read(types: Mapping[str, str]) -> Iterator[VfType]:
    for type_id, name in types.items():
        size = _SIZE.search(name)
        if size is not None:
            series = size[0].lstrip("-0123456789")[0]
            yield VfType(type_id, catalog.normalise(name), int(size[1]), series)
