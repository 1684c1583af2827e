"""What is in the way, GPU by GPU, where no moves reach a goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpumgr.model.defrag import Empty, Goal, Obstacle, Room
from vgpumgr.model.placement import rank
from vgpumgr.placement.defrag.floor import Floor
from vgpumgr.placement.defrag.seats import Seats
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.rules.gpu import refuse_gpu
from vgpumgr.placement.rules.host import refuse_host
from vgpumgr.placement.rules.words import holder
from vgpumgr.placement.state import HostState

RESIDENT = "resident"
# A code and its sentence.
Why = tuple[str, str]


def obstacles(floor: Floor, goal: Goal) -> tuple[Obstacle, ...]:
    """One per GPU that could be of help, or per host that keeps all of its GPUs from it; those
    nearest to being of help first.
    """
    return tuple(sorted(_all(floor, goal), key=lambda each: rank(each.reason)))


def _all(floor: Floor, goal: Goal) -> Iterator[Obstacle]:
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


def _host(floor: Floor, goal: Goal, gpus: Iterable[int]) -> Why | None:
    """Why the request cannot be on this host, whoever leaves its GPUs."""
    if isinstance(goal, Empty):
        return None
    here = _movable(floor, gpus)
    mark = floor.mark()
    for number in here:
        floor.lift(number)
    host = floor.hosts[floor.host_of[gpus[0]]] if (gpus := list(gpus)) else None
    reason = refuse_host(host, floor.digest(goal.request)) if host else None
    floor.back_to(mark)
    return (reason.code, reason.text) if reason else None


def _why(floor: Floor, goal: Goal, number: int) -> Why | None:
    gpu = floor.gpus[number]
    if gpu.supply.blocked:
        return "gpu-blocked", gpu.supply.blocked
    refused = _never(floor, goal, number) if isinstance(goal, Room) else _kept(gpu)
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


def _never(floor: Floor, goal: Room, number: int) -> Why | None:
    """The rule that refuses the request there although all who may go have left."""
    demand = floor.digest(goal.request)
    mark = floor.mark()
    for resident in _movable(floor, [number]):
        floor.lift(resident)
    reasons = [refuse_gpu(floor.gpus[number], kind, demand) for kind in demand.kinds]
    floor.back_to(mark)
    return next(((reason.code, reason.text) for reason in reasons if reason), None)


def _kept(gpu: GpuState) -> Why | None:
    """What lives there and is no resident."""
    who = holder(gpu.supply.usages)
    if who:
        return RESIDENT, f"{who} is on it"
    instances = len(gpu.grid.instances)
    return (RESIDENT, f"{instances} GPU instances are on it") if instances else None


def _movable(floor: Floor, gpus: Iterable[int]) -> list[int]:
    here = dict.fromkeys(number for gpu in gpus for number in floor.on[gpu])
    return [number for number in here if floor.residents[number].movable]


def _has_seat(floor: Floor, resident: int, gpu: int) -> bool:
    seats = Seats(floor)
    seats.closed[gpu] = True
    return next(seats.of(resident), None) is not None
