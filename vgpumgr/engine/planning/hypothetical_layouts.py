"""GPUs as their drivers would show them with another layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr import catalog, layout
from vgpumgr import gpu as frameworks
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.formats import version_numbers
from vgpumgr.model.gpu import GpuFacts, GpuRecord, MdevType, VendorVgpu, VfFacts
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import GpuRequest

# From this kernel on a vGPU is made on the VF itself (NVIDIA vGPU User Guide, release 17).
_VENDOR_SINCE = (6, 8)


def goals(gpu: GpuFacts) -> Iterator[GpuLayout]:
    """The ways in which a GPU of its board can be partitioned, by the catalogue; of a board that it
    does not hold, MIG where the driver tells which vGPUs lie in its instances.
    """
    plain, board = catalog.sriov_board(gpu.model), catalog.board(gpu.model)
    if plain is not None:
        counts = plain.allowed_vf_counts or range(1, gpu.sriov_total + 1)
        yield from (GpuLayout(vfs=count) for count in (*counts, 0) if count <= gpu.sriov_total)
    elif board is not None and board.host_mode == "sriov-vf":
        mig = False if board.mig_capable else None
        yield GpuLayout(mig=mig, vfs=VFS_MAX)
        if board.mixed_size:
            yield GpuLayout(mig=mig, vfs=VFS_MAX, mixed_size=True)
        if board.mig_capable:
            yield GpuLayout(mig=True, vfs=VFS_MAX)
        yield GpuLayout(mig=mig, vfs=0)
    elif board is None and gpu.mig is not None and gpu.mig.types:
        yield GpuLayout(mig=True, vfs=VFS_MAX)


def in_words(goal: GpuLayout) -> str:
    """``mig: true, vfs: max``, as a Layout has it."""
    vfs = "max" if goal.vfs == VFS_MAX else goal.vfs
    parts = {"mig": goal.mig, "vfs": vfs, "mixed_size": goal.mixed_size}
    given = (f"{key}: {value}" for key, value in parts.items() if value is not None)
    return ", ".join(given).lower()


def partitioned(gpu: GpuRecord, goal: GpuLayout, kernel: str) -> GpuRecord | None:
    """An empty GPU with that layout; None where it is so already, or cannot be."""
    try:
        _, changes = layout.plan(gpu.facts, goal, (), ())
    except layout.LayoutRefused:
        return None
    if not changes:
        return None
    facts = gpu.facts
    for change in changes:
        facts = layout.apply_change(facts, change)
    if catalog.board(facts.model) is not None or (facts.mig and facts.mig.types):
        vendor = version_numbers(kernel) >= _VENDOR_SINCE
        facts = replace(facts, vfs=tuple(_carrier(vf, facts, vendor=vendor) for vf in facts.vfs))
    facts = frameworks.with_budget(facts, gpu.facts, empty=True)
    units = max(gpu.units, frameworks.slots(facts, empty=True))  # a GPU never shrinks
    return replace(gpu, facts=facts, units=units)


def answers(offer: Offer, part: GpuRequest) -> bool:
    """Is the offer what the part asks for, by its profile or its memory?"""
    if part.profile:
        return part.profile in (offer.profile, *offer.names)
    return offer.memory_mib >= (part.memory_mib or 0)


def with_layouts(view: LedgerView, layouts: Mapping[str, GpuLayout]) -> LedgerView:
    """The view with these empty GPUs (by id) partitioned so, as far as they can be."""
    if not layouts:
        return view
    kernels = {host.name: host.facts.versions.kernel for host in view.hosts if host.facts}

    def other(gpu: GpuRecord) -> GpuRecord:
        goal = layouts.get(gpu.id)
        return (goal and partitioned(gpu, goal, kernels.get(gpu.host, ""))) or gpu

    return replace(view, gpus=tuple(map(other, view.gpus)))


def _carrier(vf: VfFacts, gpu: GpuFacts, *, vendor: bool) -> VfFacts:
    """A VF that carries vGPUs, of the types that the catalogue knows."""
    if vendor:
        return replace(vf, vendor=VendorVgpu(creatable=None, type_id=0))
    types = tuple(
        MdevType(type_id=f"nvidia-{number}", name=name, available=None)
        for number, name in _types(gpu)
    )
    return replace(vf, mdev_types=types)


def _types(gpu: GpuFacts) -> Iterator[tuple[int | str, str]]:
    """The vGPU types of the GPU's mode, by the driver's number: from the catalogue, or from the
    driver.
    """
    board = catalog.board(gpu.model)
    mig = gpu.mig is not None and gpu.mig.enabled
    for each in board.types if board else ():
        if bool(each.mig) is mig and each.id is not None:
            yield each.id, each.profile
    for told in (gpu.mig.types if gpu.mig and mig else None) or ():
        yield told.type_id, told.profile
