"""The queue's decision from a reading of the ledger: VMs that start, are preempted, or have ended.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from vgpumgr.engine.inventory.fleet_without import fleet_without, view_without
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.automatic_layouts import (
    Layouts,
    layouts_of,
    on_partitioned,
    place_with_layouts,
)
from vgpumgr.engine.reservation.shelf_reservations import unshelve_request
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainState
from vgpumgr.model.host import AUTO, HostRecord
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.queue import (
    QueueDecision,
    QueueEntry,
    QueueState,
    RoomReservation,
    RunningVm,
    WaitingVm,
)
from vgpumgr.model.quota import held_by_tenants
from vgpumgr.model.supply import Fleet, FreeVf, GpuSupply, HostSupply, Offer
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.waiting_queue import turn


def placed_as(vm: VmRecord, held: Sequence[Allocation], host: HostSupply) -> Placed | None:
    """Where a VM is, on the supply of its host without it; None where that does not offer any more
    what the VM holds: then it can only be left where it is.
    """
    gpus = {gpu.id: gpu for gpu in host.gpus}
    parts = [_part(each, gpus[each.gpu]) for each in held if each.gpu in gpus]
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(held):
        return None
    return Placed(
        request=vm.spec,
        host=vm.host,
        assignments=found,
        numa_node=vm.numa_node,
        cpus=vm.cpus,
        nic_functions=vm.nic_functions,
        partition=next((each.partition for each in held if each.partition is not None), None),
    )


def _part(held: Allocation, gpu: GpuSupply) -> Assignment | None:
    offer = next((each for each in gpu.offers if _is_of(held, each)), None)
    vf = next((each for each in gpu.free_vfs if each.number == held.vf), None)
    if offer is None or not _is_free(held, gpu) or (held.vf is not None and vf is None):
        return None
    start = held.instance.start if held.instance else held.placement_id
    return Assignment(
        gpu=gpu.id,
        device=gpu.device,
        offer=offer,
        slots=held.slots,
        start=start,
        vf=FreeVf(number=vf.number, address=vf.address) if vf else None,
        make_instance=bool(held.instance) and start not in {each.start for each in gpu.instances},
        frame_rate_limiter=held.frame_rate_limiter,
    )


def _is_of(held: Allocation, offer: Offer) -> bool:
    return (offer.profile, offer.framework) == (held.profile, held.framework)


def _is_free(held: Allocation, gpu: GpuSupply) -> bool:
    inside = {slot for each in gpu.instances for slot in each.free}
    return set(held.slots) <= {*gpu.free_slots, *inside}


def ended(view: LedgerView, busy: Collection[str] = ()) -> tuple[tuple[QueueEntry, VmRecord], ...]:
    """Running entries whose domain is shut off, on a host that has not booted since, and is not
    shutting down with all its guests.

    Left out are domains that are gone, have crashed, or could not be read, VMs that their users
    stopped, and VMs with an operation (``busy``, by the VM's id).
    """
    vms = {vm.id: vm for vm in view.vms}
    answered = observed_domains(view)
    hosts = {host.name: host for host in view.hosts if host.name in answered.hosts}
    found = []
    for entry in view.queue:
        vm = vms.get(entry.vm_id)
        if entry.state is not QueueState.RUNNING or vm is None or vm.id in busy:
            continue
        asked_to_run = vm.state is VmState.ACTIVE and vm.running and not vm.definition
        if asked_to_run and vm.host not in answered.resting and _is_off(vm, hosts.get(vm.host)):
            found.append((entry, vm))
    return tuple(found)


def _is_off(vm: VmRecord, host: HostRecord | None) -> bool:
    if host is None or host.facts is None or host.settled_boot != host.facts.boot_id:
        return False
    if host.facts.stopping:
        return False
    for domain in host.facts.domains:
        mark = domain.ownership
        if domain.name == vm.name and mark is not None and mark.vm_id == vm.id:
            return domain.state is DomainState.SHUTOFF
    return False


def decide(
    view: LedgerView,
    ended: Collection[str],
    place: Callable[[Fleet], Placer],
    now: float,
    kept: Sequence[RoomReservation] = (),
    booked: Sequence[VmSpec] = (),
) -> QueueDecision:
    """The VMs that start now, and the VMs that are stopped for them; ``ended`` names VMs whose work
    is done, ``place`` makes the placer for a supply, ``kept`` is the capacity that the previous
    cycle reserved, ``booked`` are desktops whose capacity is taken.

    A half-made or half-stopped VM neither starts nor is stopped.
    """
    vms = {vm.id: vm for vm in view.vms}
    candidates = {
        each.vm_id: each
        for each in view.queue
        if each.state is QueueState.RUNNING and _is_whole(vms.get(each.vm_id))
    }
    running = dict(_running(view, candidates))
    rest = view_without(view, running)
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
        held=held_by_tenants(rest.vms, rest.allocations, rest.gpus, rest.images),
        reservations=kept,
        licences=view.licences,
    )


def _is_whole(vm: VmRecord | None) -> bool:
    return vm is not None and vm.state is VmState.ACTIVE and not vm.definition


def _waiting(view: LedgerView, vms: dict[str, VmRecord]) -> Iterator[WaitingVm]:
    for each in view.queue:
        if each.state is not QueueState.WAITING:
            continue
        shelved = vms.get(each.vm_id)
        if shelved is None:
            yield WaitingVm(vm=each.vm, since=each.since, terms=each.terms)
        elif shelved.state is VmState.SHELVED:
            terms = shelved.spec.queue or each.terms
            yield WaitingVm(vm=unshelve_request(shelved), since=each.since, terms=terms)


def _running(
    view: LedgerView, candidates: dict[str, QueueEntry]
) -> Iterator[tuple[str, RunningVm]]:
    """Running VMs that could start again as they are on the supply without them; the others stay in
    it.
    """
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
            yield vm.id, RunningVm(placed=placed, since=started, terms=terms)


def layouts_wanted(view: LedgerView, place: PlaceFunction) -> Layouts:
    """How empty GPUs are to be partitioned for waiting VMs that fit nowhere as GPUs are now."""
    if all(host.layout != AUTO for host in view.hosts):
        return {}
    waiting = [each.vm for each in _waiting(view, {vm.id: vm for vm in view.vms})]
    if not waiting:
        return {}
    found = place_with_layouts(view, place(build_fleet(view), waiting), place)
    return layouts_of(each for each in found if isinstance(each, Placed))


def with_layouts_wanted(decided: QueueDecision, layouts: Layouts) -> QueueDecision:
    """The decision on a fleet that has these layouts, with the GPUs marked that get them first."""
    starts = (replace(each, placed=on_partitioned(each.placed, layouts)) for each in decided.starts)
    return replace(decided, starts=tuple(starts)) if layouts else decided
