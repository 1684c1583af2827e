"""The fragmentation of each host, from the same numbers that placements are scored by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vgpumgr.model.placement import GpuSupply
from vgpumgr.placement.gauge import HostFragmentation
from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.offers import whole


def fragmentation(hosts: HostRows, mix: MixRows) -> Iterator[HostFragmentation]:
    """Every host that has GPUs."""
    mix.catch_up()
    for number, host in enumerate(hosts.states):
        if host.supply.gpus:
            yield _of_host(hosts, mix, number)


def _of_host(hosts: HostRows, mix: MixRows, number: int) -> HostFragmentation:
    supply = hosts.states[number].supply
    rows = hosts.rows[number, : len(supply.gpus)]
    free = np.array([memory_mib(gpu) for gpu in supply.gpus]) * mix.free[rows] / 1000.0
    open_to = mix.open_to(hosts.cpu[number], hosts.memory[number])
    held = mix.room[rows].sum(axis=0) >= mix.need
    useful = (mix.useful[rows] > 0) & held & (open_to > 0)
    return HostFragmentation(
        host=supply.name,
        free_mib=float(free.sum()),
        unusable_mib=float(free[~useful.any(axis=1)].sum()),
        expected_mib=float(free.sum() - (free[:, None] * useful * mix.weight).sum()),
    )


def memory_mib(gpu: GpuSupply) -> int:
    """A GPU's memory as its offers tell it."""
    wholes = [offer.memory_mib for offer in gpu.offers if whole(offer)]
    parts = [offer.memory_mib * gpu.units // offer.units for offer in gpu.offers if offer.units]
    return max(wholes or parts, default=0)
