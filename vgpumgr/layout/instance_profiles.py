"""The GPU-instance profiles of a GPU: from its driver, else from the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts, MigProfile


@dataclass(frozen=True, slots=True)
class InstanceProfile:
    """``size`` and ``starts`` in slices of the memory grid. ``media``: one such per GPU."""

    name: str
    id: int
    size: int
    gpu_slices: int
    starts: tuple[int, ...]
    media: bool
    most: int


def profiles(gpu: GpuFacts) -> dict[str, InstanceProfile]:
    """By name, largest first. Empty where neither the driver nor the catalogue knows any."""
    told = gpu.mig.profiles if gpu.mig else ()
    found = [_told(gpu, each) for each in told if each.starts] or _listed(gpu)
    return {each.name: each for each in sorted(found, key=lambda each: (-each.size, each.name))}


def gpu_slices(gpu: GpuFacts) -> int:
    """Compute slices of the whole GPU, which all its instances share."""
    board = catalog.board(gpu.model)
    mig = board and catalog.mig(board)
    if mig:
        return mig.gpu_slices
    return max((each.gpu_slices for each in profiles(gpu).values()), default=0)


def compute_ids(gpu: GpuFacts, profile: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """Compute-instance profile ids of names like ``1c.3g.20gb``; KeyError for an unknown one."""
    known = {each.name: each.id for each in _compute(gpu, profile)}
    return tuple(sorted(known[name] for name in names))


def compute_names(gpu: GpuFacts, profile: str, ids: tuple[int, ...]) -> tuple[str, ...]:
    """The reverse of :func:`compute_ids`; KeyError for an unknown id."""
    known = {each.id: each.name for each in _compute(gpu, profile)}
    return tuple(known[number] for number in ids)


def compute_slices(gpu: GpuFacts, profile: str, names: tuple[str, ...]) -> int:
    """Compute slices that these compute instances take of their GPU instance."""
    known = {each.name: each.slices for each in _compute(gpu, profile)}
    return sum(known[name] for name in names)


def known_compute(gpu: GpuFacts, profile: str) -> tuple[str, ...]:
    """Names of the compute instances that fit into one GPU instance of ``profile``."""
    return tuple(each.name for each in _compute(gpu, profile))


def _compute(gpu: GpuFacts, profile: str) -> tuple[catalog.CiProfile, ...]:
    board = catalog.board(gpu.model)
    known = catalog.gi_profile(board, profile) if board else None
    return known.compute if known else ()


def _told(gpu: GpuFacts, each: MigProfile) -> InstanceProfile:
    board = catalog.board(gpu.model)
    known = catalog.gi_profile(board, each.name) if board else None
    return InstanceProfile(
        name=each.name,
        id=each.profile_id,
        size=each.size,
        gpu_slices=each.gpu_slices,
        starts=each.starts,
        media=known.media if known else "+me" in each.name,
        most=known.max_instances if known else len(each.starts),
    )


def _listed(gpu: GpuFacts) -> list[InstanceProfile]:
    board = catalog.board(gpu.model)
    mig = board and catalog.mig(board)
    return [
        InstanceProfile(
            name=each.name,
            id=each.id,
            size=each.size,
            gpu_slices=each.gpu_slices,
            starts=each.starts,
            media=each.media,
            most=each.max_instances,
        )
        for each in (mig.profiles if mig else ())
    ]
