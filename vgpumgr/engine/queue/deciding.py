"""The ledger's reading → a turn of the queue. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from vgpumgr.engine.queue.lifting import fleet_without, lifted
from vgpumgr.engine.queue.standing import placed_as
from vgpumgr.engine.reserving.shelving import wish
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.holding import held_by_tenants
from vgpumgr.model.placement import Fleet, Placed
from vgpumgr.model.queue import Reservation, Running, Turn, Waiting
from vgpumgr.model.queued import QueueEntry, QueueState
from vgpumgr.model.vm import Allocation, VmRecord, VmSpec, VmState
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue import turn


def decide(
    view: LedgerView,
    ended: Collection[str],
    place: Callable[[Fleet], Placer],
    now: float,
    kept: Sequence[Reservation] = (),
    booked: Sequence[VmSpec] = (),
) -> Turn:
    """Who starts now and who is stopped for whom; ``ended`` names VMs that came to their end,
    ``place`` makes the placer for a supply, ``kept`` is the room that the turn before kept,
    ``booked`` are desktops whose room is nobody's here.

    A VM that is half made or half stopped neither starts nor is stopped.
    """
    vms = {vm.id: vm for vm in view.vms}
    candidates = {
        each.vm_id: each
        for each in view.queue
        if each.state is QueueState.RUNNING and _is_whole(vms.get(each.vm_id))
    }
    running = dict(_running(view, candidates))
    rest = lifted(view, running)
    placer = place(fleet_without(view, running))
    for each in running.values():
        placer.commit(each.placed)
    for spec in booked:
        stands = placer.decide(spec, explain=False)
        if isinstance(stands, Placed):
            placer.commit(stands)
    return turn(
        placer,
        tuple(_waiting(view, vms)),
        tuple(running.values()),
        view.quotas,
        now,
        ended=ended,
        held=held_by_tenants(rest.vms, rest.allocations, rest.gpus),
        reservations=kept,
    )


def _is_whole(vm: VmRecord | None) -> bool:
    return vm is not None and vm.state is VmState.ACTIVE and not vm.definition


def _waiting(view: LedgerView, vms: dict[str, VmRecord]) -> Iterator[Waiting]:
    for each in view.queue:
        if each.state is not QueueState.WAITING:
            continue
        shelved = vms.get(each.vm_id)
        if shelved is None:
            yield Waiting(vm=each.vm, since=each.since, terms=each.terms)
        elif shelved.state is VmState.SHELVED:
            terms = shelved.spec.queue or each.terms
            yield Waiting(vm=wish(shelved), since=each.since, terms=terms)


def _running(view: LedgerView, candidates: dict[str, QueueEntry]) -> Iterator[tuple[str, Running]]:
    """Those that the supply without them could take back as they are; the rest stays in it."""
    fleet = fleet_without(view, candidates)
    held: dict[str, list[Allocation]] = {}
    for each in view.allocations:
        held.setdefault(each.vm_id, []).append(each)
    hosts = {host.name: host for host in fleet.hosts}
    for vm in view.vms:
        entry = candidates.get(vm.id)
        if entry is None:
            continue
        placed = placed_as(vm, held.get(vm.id, []), hosts[vm.host])
        if placed is not None:
            started = entry.started_at or entry.since
            terms = vm.spec.queue or entry.terms
            yield vm.id, Running(placed=placed, since=started, terms=terms)
