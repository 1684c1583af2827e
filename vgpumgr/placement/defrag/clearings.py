"""Clearings: VMs that must leave a GPU or host to reach a goal, and what no move clears."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.model.defrag import DefragGoal, EmptyGpus, FreeRoom, Obstacle
from vgpumgr.model.placement import Placed, rank
from vgpumgr.model.supply import Offer
from vgpumgr.placement.defrag.movable_fleet import (
    DEPTH,
    MovableFleet,
    MoveTargets,
    fit_among,
    same_place,
)
from vgpumgr.placement.fit.gpu_rules import holder, refuse_gpu
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.fit.policy_keys import KEYS, Key, Keys
from vgpumgr.placement.resources.gpu_slots import Spot, mask_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState


@dataclass(frozen=True, slots=True)
class Clearing:
    """With these residents gone from these GPUs of one host, ``gain`` is won there.

    For ``EmptyGpus`` the GPUs are then empty; for ``FreeRoom`` so many of the request fit on them.
    """

    gpus: tuple[int, ...]
    gain: int
    leaving: tuple[int, ...]


Site = Sequence[Clearing]
"""Clearings of the same GPUs, the least gain first: one of them at most is carried out."""


def sites(trial: MovableFleet, goal: DefragGoal) -> list[Site]:
    """Every way to gain something; () where the goal names what nothing can give."""
    if isinstance(goal, EmptyGpus):
        found = (_emptied(trial, gpu) for gpu in range(len(trial.gpus)))
        return [(each,) for each in found if each]
    return [site for gpus in _gpu_groups(trial, goal) if (site := _making_room(trial, goal, gpus))]


def _emptied(trial: MovableFleet, gpu: int) -> Clearing | None:
    """A GPU of a host that takes VMs, on which nothing but residents lives that may go."""
    if not trial.bare_empty[gpu] or trial.hosts[trial.host_of[gpu]].supply.blocked:
        return None
    if not all(trial.residents[number].movable for number in trial.on[gpu]):
        return None
    return Clearing((gpu,), 1, tuple(trial.on[gpu]))


def _gpu_groups(trial: MovableFleet, goal: FreeRoom) -> list[tuple[int, ...]]:
    """The GPUs on which one request may lie: each GPU by itself, or for several parts all of a
    host.
    """
    demand = trial.digest(goal.request)
    if demand.parts == 1:
        kind = demand.kinds[0]
        return [(n,) for n, gpu in enumerate(trial.gpus) if gpu.matching(kind)]
    every: dict[int, list[int]] = {}
    for gpu, host in enumerate(trial.host_of.tolist()):
        every.setdefault(host, []).append(gpu)
    return [tuple(gpus) for gpus in every.values()]


def _making_room(trial: MovableFleet, goal: FreeRoom, gpus: tuple[int, ...]) -> Site:
    """The clearings of these GPUs: all movable residents are taken off, the request is placed, and
    residents return as far as they still fit.
    """
    here = dict.fromkeys(number for gpu in gpus for number in trial.on[gpu])
    movable = sorted(
        (number for number in here if trial.residents[number].movable),
        key=lambda number: (
            not trial.residents[number].user,  # who is at work comes back first
            trial.units(number),
            trial.mib[number],
        ),
    )
    mark = trial.mark()
    homes = {number: trial.lift(number) for number in movable}
    keys = _least_in_the_way(homes.values())
    found: list[Clearing] = []
    for gain in range(1, goal.count + 1):
        placed = fit_among(trial, goal.request, gpus, keys)
        if placed is None:
            break
        trial.put(placed)
        leaving = _without_a_place(trial, homes)
        found.append(Clearing(gpus, gain, leaving))
    trial.back_to(mark)
    return tuple(found)


def _without_a_place(trial: MovableFleet, homes: dict[int, Placed]) -> tuple[int, ...]:
    mark, leaving = trial.mark(), []
    for number, home in homes.items():
        again = same_place(trial, home)
        if again is None:
            leaving.append(number)
        else:
            trial.put(again, number)
    trial.back_to(mark)
    return tuple(leaving)


def _least_in_the_way(homes: Iterable[Placed]) -> Keys:
    """Keys that prefer the places with the fewest residents before."""
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


def obstacles(trial: MovableFleet, goal: DefragGoal) -> tuple[Obstacle, ...]:
    """One obstacle per GPU that could help to reach the goal, or per host that keeps all of its
    GPUs from it; the nearest to helping come first.
    """
    return tuple(sorted(_all(trial, goal), key=lambda each: rank(each.reason)))


def _all(trial: MovableFleet, goal: DefragGoal) -> Iterator[Obstacle]:
    first = 0
    for host in trial.hosts:
        gpus = range(first, first + len(host.gpus))
        first += len(host.gpus)
        closed = _blocked(host) or _host(trial, goal, gpus)
        if closed:
            yield Obstacle(host=host.name, code=closed[0], text=closed[1])
            continue
        for number in gpus:
            gpu = trial.gpus[number]
            if why := _why(trial, goal, number):
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


def _host(trial: MovableFleet, goal: DefragGoal, gpus: Iterable[int]) -> Why | None:
    """Why the host refuses the request, whichever residents leave its GPUs."""
    if isinstance(goal, EmptyGpus):
        return None
    here = _movable(trial, gpus)
    mark = trial.mark()
    for number in here:
        trial.lift(number)
    host = trial.hosts[trial.host_of[gpus[0]]] if (gpus := list(gpus)) else None
    reason = refuse_host(host, trial.digest(goal.request)) if host else None
    trial.back_to(mark)
    return (reason.code, reason.text) if reason else None


def _why(trial: MovableFleet, goal: DefragGoal, number: int) -> Why | None:
    gpu = trial.gpus[number]
    if gpu.supply.blocked:
        return "gpu-blocked", gpu.supply.blocked
    refused = _never(trial, goal, number) if isinstance(goal, FreeRoom) else _kept(gpu)
    if refused:
        return refused
    for resident in trial.on[number]:
        each = trial.residents[resident]
        name = each.placed.request.name
        if not each.movable:
            return RESIDENT, f"{name} stays: {each.stays or 'no host has room for it'}"
        if not _has_target(trial, resident, number):
            parts = ", ".join(part.offer.profile for part in each.placed.assignments)
            return RESIDENT, f"{name} ({parts}) finds no place on another GPU"
    return None


def _never(trial: MovableFleet, goal: FreeRoom, number: int) -> Why | None:
    """The rule that refuses the request on this GPU although all movable residents have left."""
    demand = trial.digest(goal.request)
    mark = trial.mark()
    for resident in _movable(trial, [number]):
        trial.lift(resident)
    reasons = [refuse_gpu(trial.gpus[number], kind, demand) for kind in demand.kinds]
    trial.back_to(mark)
    return next(((reason.code, reason.text) for reason in reasons if reason), None)


def _kept(gpu: GpuOccupancy) -> Why | None:
    """What is on the GPU and is no resident."""
    who = holder(gpu.supply.usages)
    if who:
        return RESIDENT, f"{who} is on it"
    instances = len(gpu.grid.instances)
    return (RESIDENT, f"{instances} GPU instances are on it") if instances else None


def _movable(trial: MovableFleet, gpus: Iterable[int]) -> list[int]:
    here = dict.fromkeys(number for gpu in gpus for number in trial.on[gpu])
    return [number for number in here if trial.residents[number].movable]


def _has_target(trial: MovableFleet, resident: int, gpu: int) -> bool:
    targets = MoveTargets(trial)
    targets.closed[gpu] = True
    return next(targets.of(resident), None) is not None
