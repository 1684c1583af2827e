"""The moves that make a refused request fit on a pool of alike GPUs, by table.

All are moved off one GPU, each to a place elsewhere that is free while it still holds its own,
so at no moment is a VM without a place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from benchmarks.placement.pools.table_pool import Held, TablePool


@dataclass(frozen=True, slots=True)
class Move:
    """A VM goes from one GPU to another."""

    vm: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Repair:
    """After the moves, in this order, the request fits on ``gpu``.

    ``units`` is what the moved VMs hold in all, ``loss`` how much worse all of it leaves the pool
    by its own ranking, the request included.
    """

    gpu: int
    moves: tuple[Move, ...]
    units: int
    loss: float


May = Callable[[int, int], bool]
"""Whether a VM (by number) may move to a GPU: hosts, networks, whatever the table cannot know."""


Cost = Callable[[Repair], tuple[float, ...]]
"""What a repair costs; the least is chosen."""


def fewest(repair: Repair) -> tuple[float, ...]:
    """The fewest moves, then the fewest units moved, then the least loss."""
    return len(repair.moves), repair.units, repair.loss


def find_repair(
    pool: TablePool, part: int, most: int, *, cost: Cost = fewest, may: May | None = None
) -> Repair | None:
    """The least-cost way to make room for one ``part`` with at most ``most`` moves, or None.

    GPUs in equal states are tried once, so with ``may`` a way that only another of them allows
    can be missed.
    """
    best: Repair | None = None
    for count in range(1, most + 1):
        found = [*_off_one_gpu(pool, part, count, may), *([best] if best else [])]
        best = min(found, key=lambda each: (cost(each), each.gpu), default=None)
        if best and cost is fewest:
            break
    return best


def carry_out(pool: TablePool, repair: Repair) -> None:
    """Move the VMs; the request itself is then placed by ``put`` on ``repair.gpu``."""
    for move in repair.moves:
        part = pool.held[move.source][move.vm].part
        pool.remove(move.vm)
        pool.put(move.vm, part, move.target)


def _off_one_gpu(pool: TablePool, part: int, count: int, may: May | None) -> Iterator[Repair]:
    """Every repair of ``count`` moves."""
    states, firsts = np.unique(pool.states, return_index=True)
    known: dict[tuple[int, ...], _Homes | None] = {}
    for state, gpu in zip(states.tolist(), firsts.tolist(), strict=True):
        for way in pool.emptying(state, part, count):
            vms = _vms(pool, gpu, way.leaving)
            homes = _homes(pool, gpu, vms, may, known)
            if homes is not None:
                moves = map(Move, vms, repeat(gpu), homes.gpus)
                yield Repair(gpu, tuple(moves), _units(pool, way.leaving), way.loss + homes.loss)


@dataclass(frozen=True, slots=True)
class _Homes:
    """The GPUs that VMs go to, one after the other, and how much worse these become."""

    gpus: tuple[int, ...]
    loss: float


def _vms(pool: TablePool, gpu: int, leaving: Sequence[Held]) -> list[int]:
    """VMs on the GPU that hold just that."""
    held = dict(pool.held[gpu])
    found = []
    for part, slots in leaving:
        vm = next(vm for vm, step in held.items() if (step.part, step.slots) == (part, slots))
        found.append(vm)
        del held[vm]
    return found


def _homes(
    pool: TablePool,
    gpu: int,
    vms: list[int],
    may: May | None,
    known: dict[tuple[int, ...], _Homes | None],
) -> _Homes | None:
    """Where the VMs go from ``gpu``. ``known``: for the same parts, from whatever GPU."""
    parts = tuple(pool.held[gpu][vm].part for vm in vms)
    if may is not None:
        return _seek(pool, parts, [gpu], vms, may)
    if parts not in known:
        known[parts] = _seek(pool, parts, [], vms, may)
    found = known[parts]
    return _seek(pool, parts, [gpu], vms, may) if found and gpu in found.gpus else found


def _seek(
    pool: TablePool, parts: Sequence[int], without: list[int], vms: list[int], may: May | None
) -> _Homes | None:
    """The best places, one VM after the other; the pool is as before when this returns."""
    before, gpus, loss = pool.states.copy(), [], 0.0
    for part, vm in zip(parts, vms, strict=True):
        target = _target(pool, part, without, vm, may)
        if target is None:
            break
        state = pool.states[target]
        step = pool.ranking.steps[part][state]
        assert step is not None
        loss += float(pool.ranking.scores[part, state])
        pool.states[target] = step.after
        gpus.append(target)
    pool.states[:] = before
    return _Homes(tuple(gpus), loss) if len(gpus) == len(parts) else None


def _target(pool: TablePool, part: int, without: list[int], vm: int, may: May | None) -> int | None:
    without = list(without)
    while True:
        target = pool.best(part, without)
        if target is None or may is None or may(vm, target):
            return target
        without.append(target)


def _units(pool: TablePool, leaving: Sequence[Held]) -> int:
    return sum(pool.space.size(part) for part, _ in leaving)
