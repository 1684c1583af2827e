"""Whether the VMs of any lost host would find a place on the hosts that are left. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from vgpumgr.engine.inventory.host_supply import build_fleet, where_held
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.failover import FailoverReserve, HostLoss
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.placement import Placer

_LOST = "it is lost (supposed)"


@dataclass(frozen=True, slots=True)
class _Resident:
    """A VM that would be recreated, and how many GPU slots it has: the largest come first."""

    spec: VmSpec
    slots: int


@dataclass(slots=True)
class _Outcome:
    """What a loss would come to, and the hosts that its VMs would be on."""

    loss: HostLoss
    taken: frozenset[str] = field(default_factory=frozenset)


class FailoverCheck:
    """Every loss that a reserve speaks of, tried on the fleet as it is and as it becomes.

    VMs are recreated where there is capacity, whatever disks and images are there, and whatever
    power budgets have left: a lost host draws nothing. Spot VMs are
    not: they are stopped for others; nor adopted VMs, and VMs that may run on the lost hosts alone.
    A loss is tried again only after a VM came to one of its hosts, or to one that its VMs would be
    on. Not thread-safe.
    """

    def __init__(self, view: LedgerView, reserve: FailoverReserve) -> None:
        fleet = build_fleet(replace(view, images=(), budgets=()))
        self._placer = Placer(fleet, reserve.policy)
        self._blocked = {host.name: host.blocked for host in fleet.hosts}
        self._residents: dict[str, dict[str, _Resident]] = {name: {} for name in self._blocked}
        self._affinities = {vm.name: vm.spec.affinity for vm in view.vms}
        slots = _slots(view)
        for vm in where_held(view.vms):
            if vm.host in self._residents and _is_recreated(vm):
                found = _Resident(_diskless(vm.spec), slots.get(vm.id, 0))
                self._residents[vm.host][vm.name] = found
        names = sorted(self._blocked)
        count = min(reserve.hosts, len(names))
        self._losses = tuple(combinations(names, count)) if count else ()
        self._outcomes: dict[tuple[str, ...], _Outcome] = {}
        self._known: dict[tuple[str, ...], int] = {}

    def losses(self) -> Iterator[HostLoss]:
        """Each loss, and what it would come to."""
        for lost in self._losses:
            yield self._outcome(lost).loss

    def keep_what_holds(self) -> None:
        """From now on a loss counts as a shortfall where it leaves more VMs without a place than
        it would now: one host of its kind in the fleet has no substitute, whatever comes elsewhere.
        """
        self._known = {loss.hosts: len(loss.homeless) for loss in self.losses() if loss.homeless}

    def shortfall(self) -> HostLoss | None:
        """The first loss that would leave (more) VMs without a place."""
        return next((each for each in self.losses() if self._is_worse(each)), None)

    def _is_worse(self, loss: HostLoss) -> bool:
        return len(loss.homeless) > self._known.get(loss.hosts, 0)

    def add(self, placed: Placed) -> None:
        """A VM comes to where it was placed; the supply must be as it was decided on."""
        self._placer.commit(placed)
        if not _is_spot(placed.request):
            slots = sum(len(part.slots) for part in placed.assignments)
            self._residents[placed.host][placed.request.name] = _Resident(self._own(placed), slots)
        self._forget(placed.host)

    def remove(self, placed: Placed) -> None:
        """It does not come after all."""
        self._placer.release(placed)
        self._residents[placed.host].pop(placed.request.name, None)
        self._forget(placed.host)

    def _own(self, placed: Placed) -> VmSpec:
        """Its request; of a VM that gets another seat on its host, as it may be recreated."""
        spec, known = placed.request, self._affinities.get(placed.request.name)
        return _diskless(replace(spec, affinity=known) if known is not None else spec)

    def _forget(self, host: str) -> None:
        for lost, found in list(self._outcomes.items()):
            if host in lost or host in found.taken:
                del self._outcomes[lost]

    def _outcome(self, lost: tuple[str, ...]) -> _Outcome:
        if lost not in self._outcomes:
            self._outcomes[lost] = self._try(lost)
        return self._outcomes[lost]

    def _try(self, lost: tuple[str, ...]) -> _Outcome:
        homeless, found = [], []
        leaving = self._leaving(lost)
        for host in lost if leaving else ():
            self._placer.block(host, self._blocked[host] or _LOST)
        for spec in leaving:
            decision = self._placer.decide(spec, explain=False)
            if isinstance(decision, Placed):
                self._placer.commit(decision)
                found.append(decision)
            else:
                homeless.append(spec.name)
        for placed in reversed(found):
            self._placer.release(placed)
        for host in lost if leaving else ():
            self._placer.block(host, self._blocked[host])
        loss = HostLoss(lost, len(leaving), tuple(sorted(homeless)))
        return _Outcome(loss, frozenset(each.host for each in found))

    def _leaving(self, lost: tuple[str, ...]) -> list[VmSpec]:
        """The VMs that would be recreated, the largest first."""
        all_of = [each for host in lost for each in self._residents[host].values()]
        able = [each for each in all_of if not _is_bound(each.spec, lost)]
        able.sort(key=lambda each: (-each.slots, -each.spec.memory_mib, each.spec.name))
        return [each.spec for each in able]


def _slots(view: LedgerView) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in view.allocations:
        found[each.vm_id] = found.get(each.vm_id, 0) + len(each.slots)
    return found


def _is_recreated(vm: VmRecord) -> bool:
    return vm.state is not VmState.SHELVED and not vm.definition and not _is_spot(vm.spec)


def _diskless(spec: VmSpec) -> VmSpec:
    """With disks that need no room: they lie where they lie."""
    return replace(spec, disks=tuple(replace(disk, size_bytes=0) for disk in spec.disks))


def _is_spot(spec: VmSpec) -> bool:
    return spec.queue is not None and spec.queue.spot


def _is_bound(spec: VmSpec, lost: tuple[str, ...]) -> bool:
    return bool(spec.affinity.hosts) and set(spec.affinity.hosts) <= set(lost)
