"""GPU memory that is free and of no use to what is expected, GPU by GPU, and which rule says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr.model.placement import FAR_REASONS, FITS, Fleet, GpuSupply, HostSupply, Reason
from vgpumgr.placement.explain import explain
from vgpumgr.placement.matrix.measure import memory_mib
from vgpumgr.placement.mix import Mix


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """``free_mib`` of a GPU that no request of the mix can use, and the rule that the most wanted
    of those that the GPU could make fails.
    """

    host: str
    gpu: str
    device: str
    model: str
    free_mib: int
    reason: Reason


def stranded(fleet: Fleet, mix: Mix) -> tuple[Stranded, ...]:
    """Every such GPU, in the order of the fleet."""
    wanted = [request for request, _ in sorted(mix.requests, key=lambda each: -each[1])]
    return tuple(
        found
        for host in fleet.hosts
        for found in _on(host, [explain(Fleet(hosts=(host,)), request) for request in wanted])
    )


def _on(host: HostSupply, answers: list[tuple[Reason, ...]]) -> Iterator[Stranded]:
    for gpu in host.gpus:
        if gpu.blocked:  # quarantined, lost: what is on it is not free
            continue
        said = [reason for answer in answers for reason in answer if reason.gpu == gpu.id]
        free_mib = _free(gpu)
        if free_mib and said and all(reason.code != FITS for reason in said):
            near = [reason for reason in said if reason.code not in FAR_REASONS]
            yield Stranded(
                host=host.name,
                gpu=gpu.id,
                device=gpu.device,
                model=gpu.model,
                free_mib=free_mib,
                reason=(near or said)[0],
            )


def _free(gpu: GpuSupply) -> int:
    inside = sum(len(instance.free) for instance in gpu.instances)
    return memory_mib(gpu) * (len(gpu.free_slots) + inside) // max(1, gpu.units)
