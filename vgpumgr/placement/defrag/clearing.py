"""Who has to leave a GPU, or a host, so that something is gained there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vgpumgr.model.defrag import Empty, Goal, Room
from vgpumgr.model.placement import Offer, Placed
from vgpumgr.placement.defrag.floor import DEPTH, Floor
from vgpumgr.placement.defrag.seats import same_place, sit
from vgpumgr.placement.geometry import Spot, mask_of
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.policy import KEYS, Key, Keys


@dataclass(frozen=True, slots=True)
class Clearing:
    """With these residents gone from these GPUs of one host, ``gain`` is won there.

    For ``Empty`` the GPUs are then empty; for ``Room`` so many of the request fit on them.
    """

    gpus: tuple[int, ...]
    gain: int
    leaving: tuple[int, ...]


Site = Sequence[Clearing]
"""Clearings of the same GPUs, the least gain first: one of them at most is carried out."""


def sites(floor: Floor, goal: Goal) -> list[Site]:
    """Every way to gain something; () where the goal names what nothing can give."""
    if isinstance(goal, Empty):
        found = (_emptied(floor, gpu) for gpu in range(len(floor.gpus)))
        return [(each,) for each in found if each]
    return [site for gpus in _grounds(floor, goal) if (site := _roomy(floor, goal, gpus))]


def _emptied(floor: Floor, gpu: int) -> Clearing | None:
    """A GPU of a host that takes VMs, on which nothing but residents lives that may go."""
    if not floor.bare_empty[gpu] or floor.hosts[floor.host_of[gpu]].supply.blocked:
        return None
    if not all(floor.residents[number].movable for number in floor.on[gpu]):
        return None
    return Clearing((gpu,), 1, tuple(floor.on[gpu]))


def _grounds(floor: Floor, goal: Room) -> list[tuple[int, ...]]:
    """Where one request may lie: on one GPU, or for several parts on any of a host's."""
    demand = floor.digest(goal.request)
    if demand.parts == 1:
        kind = demand.kinds[0]
        return [(n,) for n, gpu in enumerate(floor.gpus) if gpu.matching(kind)]
    every: dict[int, list[int]] = {}
    for gpu, host in enumerate(floor.host_of.tolist()):
        every.setdefault(host, []).append(gpu)
    return [tuple(gpus) for gpus in every.values()]


def _roomy(floor: Floor, goal: Room, gpus: tuple[int, ...]) -> Site:
    """All who may go are lifted; what is asked for comes; then those come back who still can."""
    here = dict.fromkeys(number for gpu in gpus for number in floor.on[gpu])
    movable = sorted(
        (number for number in here if floor.residents[number].movable),
        key=lambda number: (
            not floor.residents[number].user,  # who is at work comes back first
            floor.units(number),
            floor.mib[number],
        ),
    )
    mark = floor.mark()
    homes = {number: floor.lift(number) for number in movable}
    keys = _least_in_the_way(homes.values())
    found: list[Clearing] = []
    for gain in range(1, goal.count + 1):
        placed = sit(floor, goal.request, gpus, keys)
        if placed is None:
            break
        floor.put(placed)
        leaving = _without_a_place(floor, homes)
        found.append(Clearing(gpus, gain, leaving))
    floor.back_to(mark)
    return tuple(found)


def _without_a_place(floor: Floor, homes: dict[int, Placed]) -> tuple[int, ...]:
    mark, leaving = floor.mark(), []
    for number, home in homes.items():
        again = same_place(floor, home)
        if again is None:
            leaving.append(number)
        else:
            floor.put(again, number)
    floor.back_to(mark)
    return tuple(leaving)


def _least_in_the_way(homes: Iterable[Placed]) -> Keys:
    """Places with the fewest of those who were there before."""
    parts = [part for home in homes for part in home.assignments]
    taken = [(part.gpu, mask_of(part.slots)) for part in parts]

    def gpu_key(gpu: GpuState, offer: Offer, spot: Spot) -> Key:
        slots = spot.makes or spot.slots
        over = sum(1 for name, mask in taken if name == gpu.supply.id and mask & slots)
        return (over, *KEYS[DEPTH].gpu(gpu, offer, spot))

    return Keys(gpu_key, KEYS[DEPTH].host, places=True)
