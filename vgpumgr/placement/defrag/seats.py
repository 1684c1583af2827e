"""Where a VM may sit on a floor, by the rules of placement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.placement import Fleet, Offer, Placed
from vgpumgr.model.vm import NumaPolicy, VmSpec
from vgpumgr.placement.defrag.floor import DEPTH, Floor
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.fit import fit_on, gpus_near, nodes_to_try
from vgpumgr.placement.geometry import Spot
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.policy import KEYS, Key, Keys
from vgpumgr.placement.rules.host import refuse_host
from vgpumgr.placement.taking import proposal

TIGHT = KEYS[DEPTH]


def sit(floor: Floor, request: VmSpec, gpus: Collection[int], keys: Keys = TIGHT) -> Placed | None:
    """The best place on these GPUs, all of one host; None where a rule refuses it."""
    return _sit(floor, request, floor.digest(request), gpus, keys)


def same_place(floor: Floor, wanted: Placed) -> Placed | None:
    """That place again, if it is free: any slots of the GPU where slots are merely counted."""
    there = {(part.gpu, part.start) for part in wanted.assignments}

    def elsewhere(gpu: GpuState, _offer: Offer, spot: Spot) -> Key:
        return ((gpu.supply.id, spot.at) not in there,)

    keys = Keys(elsewhere, lambda _host: (), places=True)
    found = sit(floor, wanted.request, floor.gpus_of(wanted), keys)
    if found is None or {(part.gpu, part.start) for part in found.assignments} != there:
        return None
    return found


def reseat(fleet: Fleet, wanted: Placed) -> Placed | None:
    """The same on a supply on which whoever wants it has nothing yet."""
    return same_place(Floor(fleet, ()), wanted)


class Seats:
    """Seats on other GPUs for residents of a floor. ``closed[g]``: nobody sits down there.

    ``looks`` counts what was looked at: the measure of effort.
    """

    def __init__(self, floor: Floor) -> None:
        self.closed = np.zeros(len(floor.gpus), bool)
        self.looks = 0
        self._floor = floor
        self._reach: dict[int, NDArray[np.bool_]] = {}

    def of(self, number: int) -> Iterator[Placed]:
        """Places for a resident where its ways lead, the tightest first; none on a GPU that it is
        on.
        """
        floor = self._floor
        request = floor.residents[number].placed.request
        together = request.affinity.together_with
        demand = floor.digest(request) if together else floor.demands[number]
        for gpus in self._candidates(number, demand):
            self.looks += 1
            found = _sit(floor, request, demand, gpus, TIGHT)
            if found is not None:
                yield found

    def _candidates(self, number: int, demand: Demand) -> Iterator[Sequence[int]]:
        floor, column = self._floor, self._floor.columns[number]
        reach = self._hosts(number, demand)
        closed = self.closed.copy()
        closed[list(floor.gpus_of(floor.residents[number].placed))] = True
        if column is None:
            for host in np.flatnonzero(reach).tolist():
                yield np.flatnonzero((floor.host_of == host) & ~closed).tolist()
            return
        lead = floor.leads(column)
        lead[closed | ~reach[floor.host_of]] = np.inf
        most = int(np.isfinite(lead).sum())
        if most:
            # Mostly the first one will do.
            yield (int(lead.argmin()),)
            yield from ((gpu,) for gpu in np.argsort(lead, kind="stable")[1:most].tolist())

    def _hosts(self, number: int, demand: Demand) -> NDArray[np.bool_]:
        floor, resident = self._floor, self._floor.residents[number]
        reach = self._reach.get(id(resident.ways))
        if reach is None:
            reach = np.array([host.name in resident.ways for host in floor.hosts], bool)
            self._reach[id(resident.ways)] = reach
        found: NDArray[np.bool_] = reach.copy()
        found[floor.numbers[resident.placed.host]] = resident.within is not None
        found &= floor.free[:, 0] >= demand.vcpus
        found &= floor.free[:, 1] >= demand.memory_mib
        return found


def _sit(
    floor: Floor, request: VmSpec, demand: Demand, gpus: Collection[int], keys: Keys
) -> Placed | None:
    chosen = [floor.gpus[gpu] for gpu in gpus]
    if not chosen:
        return None
    host = floor.host(chosen[0].host)
    if refuse_host(host, demand) is not None:
        return None
    fits = []
    for node in nodes_to_try(host, demand):
        near = {id(gpu) for gpu in gpus_near(host, demand, node)}
        only = [gpu for gpu in chosen if id(gpu) in near]
        fits += [fit] if (fit := fit_on(host, demand, node, keys, only)) else []
    if not fits and demand.numa is not NumaPolicy.REQUIRE:
        fits += [fit] if (fit := fit_on(host, demand, None, keys, chosen)) else []
    return proposal(min(fits, key=lambda fit: fit.score), request, demand) if fits else None
