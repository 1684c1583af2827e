"""Boards that could stand in for the models that a part of a VM names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.model.placement import Fleet, GpuSupply
from vgpumgr.model.vm import GpuRequest
from vgpumgr.placement.matrix.measure import memory_mib
from vgpumgr.placement.whatif.profiles import StandIn

_MIB_PER_GIB = 1024
_AS_LARGE = 0.9
"""Boards of one size differ a little in what is left of their memory."""


def others(part: GpuRequest, fleet: Fleet) -> Iterator[StandIn]:
    """Boards that make the part, or could with a layout: as large first, then the nearest."""
    named = {model.casefold() for model in part.any_of}
    if not named:
        return
    boards = {gpu.model: gpu for host in fleet.hosts for gpu in host.gpus}
    sizes = [size for model in part.any_of if (size := _size(model, boards))]
    asked = max(sizes, default=0)

    def far(gpu: GpuSupply) -> tuple[bool, int, str]:
        size = memory_mib(gpu)
        return size < _AS_LARGE * asked, abs(size - asked), gpu.model

    making = [
        gpu for gpu in boards.values() if _makes(gpu, part) and gpu.model.casefold() not in named
    ]
    for gpu in sorted(making, key=far):
        yield StandIn(
            part=replace(part, model=gpu.model, models=()),
            smaller=memory_mib(gpu) < _AS_LARGE * asked,
            text=f"with model: {gpu.model} instead of {', '.join(part.any_of)}",
        )


def _makes(gpu: GpuSupply, part: GpuRequest) -> bool:
    if not part.profile:
        return any(offer.memory_mib >= (part.memory_mib or 0) for offer in gpu.offers)
    offered = any(part.profile in (offer.profile, *offer.names) for offer in gpu.offers)
    return offered or part.profile in gpu.could


def _size(model: str, boards: dict[str, GpuSupply]) -> int:
    """By the fleet's own GPUs, else by the catalogue; 0 for a model that neither knows."""
    for known, gpu in boards.items():
        if known.casefold() == model.casefold():
            return memory_mib(gpu)
    found = (board for board in catalog.boards() if board.key.casefold() == model.casefold())
    return next((board.memory_gib * _MIB_PER_GIB for board in found), 0)
