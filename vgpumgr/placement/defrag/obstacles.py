"""What is in the way, GPU by GPU, where no moves reach a goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpumgr.model.defrag import Empty, Goal, Obstacle, Room
from vgpumgr.placement.defrag.floor import Floor
from vgpumgr.placement.defrag.seats import Seats
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.rules.gpu import refuse_gpu
from vgpumgr.placement.rules.host import refuse_host
from vgpumgr.placement.rules.words import holder


def obstacles(floor: Floor, goal: Goal) -> tuple[Obstacle, ...]:
    """One per GPU that could be of help, or per host that keeps all of its GPUs from it."""
    return tuple(_all(floor, goal))


def _all(floor: Floor, goal: Goal) -> Iterator[Obstacle]:
    first = 0
    for host in floor.hosts:
        gpus = range(first, first + len(host.gpus))
        first += len(host.gpus)
        closed = host.supply.blocked or _host(floor, goal, gpus)
        if closed:
            yield Obstacle(host=host.name, text=closed)
            continue
        for number in gpus:
            gpu = floor.gpus[number]
            text = _why(floor, goal, number)
            if text:
                yield Obstacle(
                    host=host.name,
                    gpu=gpu.supply.id,
                    device=gpu.supply.device,
                    model=gpu.supply.model,
                    text=text,
                )


def _host(floor: Floor, goal: Goal, gpus: Iterable[int]) -> str:
    """Why the request cannot be on this host, whoever leaves its GPUs."""
    if isinstance(goal, Empty):
        return ""
    here = _movable(floor, gpus)
    mark = floor.mark()
    for number in here:
        floor.lift(number)
    host = floor.hosts[floor.host_of[gpus[0]]] if (gpus := list(gpus)) else None
    reason = refuse_host(host, floor.digest(goal.request)) if host else None
    floor.back_to(mark)
    return reason.text if reason else ""


def _why(floor: Floor, goal: Goal, number: int) -> str:
    gpu = floor.gpus[number]
    if gpu.supply.blocked:
        return gpu.supply.blocked
    refused = _never(floor, goal, number) if isinstance(goal, Room) else _kept(gpu)
    if refused:
        return refused
    for resident in floor.on[number]:
        each = floor.residents[resident]
        name = each.placed.request.name
        if not each.ways:
            return f"{name} stays: {each.stays or 'no host takes it'}"
        if not _has_seat(floor, resident, number):
            parts = ", ".join(part.offer.profile for part in each.placed.assignments)
            return f"{name} ({parts}) finds no place on another host"
    return ""


def _never(floor: Floor, goal: Room, number: int) -> str:
    """The rule that refuses the request there although all who may go have left."""
    demand = floor.digest(goal.request)
    mark = floor.mark()
    for resident in _movable(floor, [number]):
        floor.lift(resident)
    reasons = [refuse_gpu(floor.gpus[number], kind, demand) for kind in demand.kinds]
    floor.back_to(mark)
    return next((reason.text for reason in reasons if reason), "")


def _kept(gpu: GpuState) -> str:
    """What lives there and is no resident."""
    who = holder(gpu.supply.usages)
    if who:
        return f"{who} lives on it"
    return "" if not gpu.grid.instances else f"{len(gpu.grid.instances)} GPU instances are on it"


def _movable(floor: Floor, gpus: Iterable[int]) -> list[int]:
    here = dict.fromkeys(number for gpu in gpus for number in floor.on[gpu])
    return [number for number in here if floor.residents[number].ways]


def _has_seat(floor: Floor, resident: int, gpu: int) -> bool:
    seats = Seats(floor)
    seats.closed[gpu] = True
    return next(seats.of(resident), None) is not None
