"""What GPUs in MIG, and in mixed-size mode, are worth under the mix.

Waste says what of a GPU is useless now; the value of its state says what will be lost because of
it (see ``table/values.py``). Where there is a value, it takes the place of the GPU's waste. Boards
of one size at a time have few states too, but values place worse there than waste does. In
mixed-size mode states are too many to be listed: see ``OpenStarts``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.model.placement import GpuSupply
from vgpumgr.placement.board import BoardBook
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.matrix.mixed import Weighted
from vgpumgr.placement.matrix.open_starts import OpenStarts
from vgpumgr.placement.matrix.wants import parts_of
from vgpumgr.placement.state import HostState
from vgpumgr.placement.table.keys import state_key
from vgpumgr.placement.table.space import state_space
from vgpumgr.placement.table.values import state_values

FEW_STATES = 1500


@dataclass(frozen=True, slots=True)
class StateValues:
    """See ``Values``: of GPUs in MIG by ``listed``, in mixed-size mode by ``starts``."""

    listed: Mapping[Hashable, float]
    starts: OpenStarts

    def of(self, key: Hashable, gpu: GpuState) -> float | None:
        """See ``Values``."""
        found = self.listed.get(key)
        return self.starts.lost(gpu) if found is None else found


def values_of(
    hosts: Sequence[HostState], boards: BoardBook, mix: Sequence[Weighted], *, known: bool
) -> StateValues | None:
    """The values of these hosts' GPUs; None where they have none, as most have.

    ``known``: somebody asks for this mix. Values of GPUs in MIG go by its shares, so one that is
    merely assumed gives none.
    """
    listed = pool_values(hosts, boards, mix) if known else {}
    placed = any(board.placed for board in boards)
    return StateValues(listed, OpenStarts(mix)) if listed or placed else None


def pool_values(
    hosts: Sequence[HostState], boards: BoardBook, mix: Sequence[Weighted]
) -> dict[Hashable, float]:
    """The expected loss by state, in thousandths of a GPU, of every board in MIG."""
    found: dict[Hashable, float] = {}
    for gpu, count in _pools(hosts, boards):
        found |= _of_pool(gpu, count, mix)
    return found


def _pools(hosts: Sequence[HostState], boards: BoardBook) -> Iterator[tuple[GpuState, int]]:
    """An empty GPU of each kind in MIG, and how many there are."""
    counts: Counter[Hashable] = Counter()
    empty: dict[Hashable, GpuState] = {}
    for host in hosts:
        for supply in host.supply.gpus:
            if supply.gpu_slices and not supply.blocked:
                gpu = GpuState(host.name, _emptied(supply), boards)
                key = state_key(gpu)
                counts[key] += 1
                empty.setdefault(key, gpu)
    for key, gpu in empty.items():
        yield gpu, counts[key]


def _emptied(supply: GpuSupply) -> GpuSupply:
    return replace(
        supply, usages=(), instances=(), available={}, free_slots=tuple(range(supply.units))
    )


def _of_pool(gpu: GpuState, count: int, mix: Sequence[Weighted]) -> dict[Hashable, float]:
    asked = [each for each in mix if each.weight and _held(gpu, each)]
    parts = [parts_of(each.demand)[0] for each in asked]
    space = state_space(gpu, parts, FEW_STATES) if parts else None
    if space is None or not any(space.takes[0]):
        return {}  # or nothing that is asked for ever fits
    values = state_values(space, [each.weight for each in asked], gpus=count)
    return {key: float(values[number]) for key, number in space.numbers.items()}


def _held(gpu: GpuState, each: Weighted) -> bool:
    return len(each.demand.kinds) == 1 and bool(gpu.matching(each.demand.kinds[0]))
