"""Clearings: VMs that must leave a GPU or host to reach a goal, and what no move clears."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.model.defrag import DefragGoal, EmptyGpus, FreeRoom, Obstacle
from vgpumgr.model.placement import Placed, rank
from vgpumgr.model.supply import Offer
from vgpumgr.placement.defrag.movable_fleet import DEPTH, MovableFleet, MoveTargets, same_place, sit
from vgpumgr.placement.fit.gpu_rules import holder, refuse_gpu
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.fit.policy_keys import KEYS, Key, Keys
from vgpumgr.placement.resources.gpu_slots import Spot, mask_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState


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


def sites(floor: MovableFleet, goal: DefragGoal) -> list[Site]:
    """Every way to gain something; () where the goal names what nothing can give."""
    if isinstance(goal, EmptyGpus):
        found = (_emptied(floor, gpu) for gpu in range(len(floor.gpus)))
        return [(each,) for each in found if each]
    return [site for gpus in _grounds(floor, goal) if (site := _roomy(floor, goal, gpus))]


def _emptied(floor: MovableFleet, gpu: int) -> Clearing | None:
    """A GPU of a host that takes VMs, on which nothing but residents lives that may go."""
    if not floor.bare_empty[gpu] or floor.hosts[floor.host_of[gpu]].supply.blocked:
        return None
    if not all(floor.residents[number].movable for number in floor.on[gpu]):
        return None
    return Clearing((gpu,), 1, tuple(floor.on[gpu]))


def _grounds(floor: MovableFleet, goal: FreeRoom) -> list[tuple[int, ...]]:
    """Where one request may lie: on one GPU, or for several parts on any of a host's."""
    demand = floor.digest(goal.request)
    if demand.parts == 1:
        kind = demand.kinds[0]
        return [(n,) for n, gpu in enumerate(floor.gpus) if gpu.matching(kind)]
    every: dict[int, list[int]] = {}
    for gpu, host in enumerate(floor.host_of.tolist()):
        every.setdefault(host, []).append(gpu)
    return [tuple(gpus) for gpus in every.values()]


def _roomy(floor: MovableFleet, goal: FreeRoom, gpus: tuple[int, ...]) -> Site:
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


def _without_a_place(floor: MovableFleet, homes: dict[int, Placed]) -> tuple[int, ...]:
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

    def gpu_key(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
        slots = spot.makes or spot.slots
        over = sum(1 for name, mask in taken if name == gpu.supply.id and mask & slots)
        return (over, *KEYS[DEPTH].gpu(gpu, offer, spot))

    return Keys(gpu_key, KEYS[DEPTH].host, places=True)


RESIDENT = "resident"
# A code and its sentence.
Why = tuple[str, str]


def obstacles(floor: MovableFleet, goal: DefragGoal) -> tuple[Obstacle, ...]:
    """One per GPU that could be of help, or per host that keeps all of its GPUs from it; those
    nearest to being of help first.
    """
    return tuple(sorted(_all(floor, goal), key=lambda each: rank(each.reason)))


def _all(floor: MovableFleet, goal: DefragGoal) -> Iterator[Obstacle]:
    first = 0
    for host in floor.hosts:
        gpus = range(first, first + len(host.gpus))
        first += len(host.gpus)
        closed = _blocked(host) or _host(floor, goal, gpus)
        if closed:
            yield Obstacle(host=host.name, code=closed[0], text=closed[1])
            continue
        for number in gpus:
            gpu = floor.gpus[number]
            if why := _why(floor, goal, number):
                yield Obstacle(
                    host=host.name,
                    gpu=gpu.supply.id,
                    device=gpu.supply.device,
                    model=gpu.supply.model,
                    code=why[0],
                    text=why[1],
                )


def _blocked(host: HostState) -> Why | None:
    return ("host-blocked", host.supply.blocked) if host.supply.blocked else None


def _host(floor: MovableFleet, goal: DefragGoal, gpus: Iterable[int]) -> Why | None:
    """Why the request cannot be on this host, whoever leaves its GPUs."""
    if isinstance(goal, EmptyGpus):
        return None
    here = _movable(floor, gpus)
    mark = floor.mark()
    for number in here:
        floor.lift(number)
    host = floor.hosts[floor.host_of[gpus[0]]] if (gpus := list(gpus)) else None
    reason = refuse_host(host, floor.digest(goal.request)) if host else None
    floor.back_to(mark)
    return (reason.code, reason.text) if reason else None


def _why(floor: MovableFleet, goal: DefragGoal, number: int) -> Why | None:
    gpu = floor.gpus[number]
    if gpu.supply.blocked:
        return "gpu-blocked", gpu.supply.blocked
    refused = _never(floor, goal, number) if isinstance(goal, FreeRoom) else _kept(gpu)
    if refused:
        return refused
    for resident in floor.on[number]:
        each = floor.residents[resident]
        name = each.placed.request.name
        if not each.movable:
            return RESIDENT, f"{name} stays: {each.stays or 'no host has room for it'}"
        if not _has_seat(floor, resident, number):
            parts = ", ".join(part.offer.profile for part in each.placed.assignments)
            return RESIDENT, f"{name} ({parts}) finds no place on another GPU"
    return None


def _never(floor: MovableFleet, goal: FreeRoom, number: int) -> Why | None:
    """The rule that refuses the request there although all who may go have left."""
    demand = floor.digest(goal.request)
    mark = floor.mark()
    for resident in _movable(floor, [number]):
        floor.lift(resident)
    reasons = [refuse_gpu(floor.gpus[number], kind, demand) for kind in demand.kinds]
    floor.back_to(mark)
    return next(((reason.code, reason.text) for reason in reasons if reason), None)


def _kept(gpu: GpuOccupancy) -> Why | None:
    """What lives there and is no resident."""
    who = holder(gpu.supply.usages)
    if who:
        return RESIDENT, f"{who} is on it"
    instances = len(gpu.grid.instances)
    return (RESIDENT, f"{instances} GPU instances are on it") if instances else None


def _movable(floor: MovableFleet, gpus: Iterable[int]) -> list[int]:
    here = dict.fromkeys(number for gpu in gpus for number in floor.on[gpu])
    return [number for number in here if floor.residents[number].movable]


def _has_seat(floor: MovableFleet, resident: int, gpu: int) -> bool:
    seats = MoveTargets(floor)
    seats.closed[gpu] = True
    return next(seats.of(resident), None) is not None
