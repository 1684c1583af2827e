"""The ledger and the last observation → the VMs that defragmentation may move. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vgpumgr.engine.defrag.ways import NOTHING, Allowed, Found, Ways
from vgpumgr.engine.migration.planning import wanted
from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.pooling import AtWork
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.defrag import Resident
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Fleet, FreeVf, GpuSupply, Offer, Placed
from vgpumgr.model.vm import Allocation, AllocationState, VmRecord, VmState


def residents(
    view: LedgerView,
    fleet: Fleet,
    *,
    allowed: Allowed = NOTHING,
    users: Mapping[str, AtWork] = MappingProxyType({}),
    desktops: Collection[str] = (),
) -> tuple[Resident, ...]:
    """VMs with parts of GPUs, each with its ways, as far as that is ``allowed``. ``users`` are at
    work, by the VM's id; ``desktops`` are a pool's.

    What is no resident (foreign, without a GPU part, on a host that was not reached, lost by its
    host) stays part of ``fleet``.
    """
    ways = Ways(view, fleet, allowed, users, desktops)
    return tuple(_Found(view, fleet, ways, users).all())


class _Found:
    def __init__(
        self, view: LedgerView, fleet: Fleet, ways: Ways, users: Mapping[str, AtWork]
    ) -> None:
        self._view = view
        self._hosts = {host.name: host for host in fleet.hosts}
        self._gpus = {gpu.id: gpu for host in fleet.hosts for gpu in host.gpus}
        self._running = reached(view).running
        self._ways = ways
        self._users = users
        self._held: dict[str, list[Allocation]] = {}
        for each in view.allocations:
            self._held.setdefault(each.vm_id, []).append(each)

    def all(self) -> Iterator[Resident]:
        for vm in self._view.vms:
            held = self._held.get(vm.id, [])
            placed = self._placed(vm, held) if held and vm.moving_to is None else None
            if placed is not None:
                yield self._resident(vm, held, placed)

    def _placed(self, vm: VmRecord, held: Sequence[Allocation]) -> Placed | None:
        """None where what it holds is not what its GPUs offer, or is not surely there."""
        if self._hosts[vm.host].blocked or any(each.host != vm.host for each in held):
            return None
        parts = [_part(each, self._gpus.get(each.gpu)) for each in held]
        if not all(parts):
            return None
        return Placed(
            request=vm.spec,
            host=vm.host,
            assignments=tuple(part for part in parts if part),
            numa_node=vm.numa_node,
            cpus=vm.cpus,
            partition=held[0].partition,
        )

    def _resident(self, vm: VmRecord, held: Sequence[Allocation], placed: Placed) -> Resident:
        stays = _stays(vm, held)
        runs = (vm.host, vm.name) in self._running
        if runs:
            request = wanted(self._view, vm.spec, held, "", live=True)
            placed = replace(placed, request=replace(request, affinity=vm.spec.affinity))
        found = Found(ways={}, why=stays) if stays else self._ways.of(vm, held, runs=runs)
        user = self._users.get(vm.id)
        return Resident(
            placed=placed,
            ways=found.ways,
            within=found.within,
            gpu_mib=sum(part.offer.memory_mib for part in placed.assignments),
            memory_mib=vm.spec.memory_mib,
            disk_mib=sum(disk.size_bytes for disk in vm.spec.disks) >> 20,
            stays=found.why,
            user=user.user if user is not None else "",
        )


def _stays(vm: VmRecord, held: Sequence[Allocation]) -> str:
    """Why it goes nowhere, whichever host is asked."""
    if vm.state is not VmState.ACTIVE:
        return f"it is {vm.state}"
    if any(each.state is not AllocationState.ACTIVE for each in held):
        return "its host has lost a part of it (vgpumgr heal)"
    if vm.definition:
        return "it was adopted"
    if any(each.framework == Framework.PASSTHROUGH for each in held):
        return "it has a whole GPU"
    return ""


def _part(held: Allocation, gpu: GpuSupply | None) -> Assignment | None:
    offer = _offer(held, gpu.offers) if gpu else None
    if gpu is None or offer is None or _lost(held, gpu):
        return None
    instance = held.instance
    return Assignment(
        gpu=gpu.id,
        device=gpu.device,
        offer=offer,
        slots=held.slots,
        start=instance.start if instance else held.placement_id,
        vf=None if held.vf is None else FreeVf(number=held.vf, address=held.parent or held.device),
        make_instance=instance is not None and instance.make,
        frame_rate_limiter=held.frame_rate_limiter,
    )


def _offer(held: Allocation, offers: Sequence[Offer]) -> Offer | None:
    kinds = (offer for offer in offers if offer.framework == held.framework)
    return next((offer for offer in kinds if offer.profile == held.profile), None)


def _lost(held: Allocation, gpu: GpuSupply) -> bool:
    mine = (usage for usage in gpu.usages if usage.vm == held.vm)
    return any(usage.needs is not None for usage in mine)
