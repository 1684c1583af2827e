"""VMs that defragmentation may move, and the targets each of them has."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from vgpumgr.engine.desktops.user_sessions import UserAtWork
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.move_checks import MIGRATABLE, gpu_checks, is_nvidia, live_checks
from vgpumgr.engine.migration.move_plan import MoveCheck
from vgpumgr.engine.migration.move_plan_maker import own_parts, wanted
from vgpumgr.engine.migration.move_reads import MoveReads
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS, shared_pools
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.defrag import MoveMode, MoveRoute, Resident
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.gpu import Framework
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, FreeVf, GpuSupply, Offer
from vgpumgr.model.vm import VmRecord, VmState

# The same checks as for a migration, without checks that need a look at the hosts.


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedMoves:
    """The allowed moves of running VMs that cannot move live. ``cold``: they may be stopped;
    ``with_users``: even where that cuts a user off; ``at_logoff``: desktops may be stopped while no
    user is at work on them.
    """

    cold: bool = False
    with_users: bool = False
    at_logoff: bool = False

    def how(self, *, user: UserAtWork | None, desktop: bool) -> MoveMode | None:
        """How one is moved; None: not at all."""
        if not (self.cold or (self.at_logoff and desktop)):
            return None
        if user is None or (self.with_users and self.cold):
            return MoveMode.COLD
        return MoveMode.LOGOFF if self.at_logoff else None


NOTHING = AllowedMoves()


@dataclass(frozen=True, slots=True, kw_only=True)
class VmMoveTargets:
    """The hosts that a VM can move to, and how; ``within`` its own host; ``why`` there are none."""

    ways: Mapping[str, MoveRoute]
    within: MoveRoute | None = None
    why: str = ""


class MoveNeeds(NamedTuple):
    """What decides, host by host, how a VM gets there. ``live`` None: it does not run; ``stopped``
    None: it may not be stopped. ``pools`` hold its disks.
    """

    live: LiveNeeds | None
    stopped: MoveMode | None
    pools: frozenset[str]


class LiveNeeds(NamedTuple):
    """What the GPU parts of a VM ask of both hosts of a live move."""

    migratable: bool
    nvidia: bool


class FleetMoveTargets:
    """The moves of all VMs of a fleet, as far as they are allowed.

    VMs that need the same, on hosts that do not differ in what is checked, have the same ways:
    they are worked out once. ``users`` are at work, by the VM's id; ``desktops`` are the ids of VMs
    of pools.
    """

    def __init__(
        self,
        view: LedgerView,
        fleet: Fleet,
        allowed: AllowedMoves,
        users: Mapping[str, UserAtWork],
        desktops: Collection[str],
    ) -> None:
        open_ = {host.name for host in fleet.hosts if not host.blocked}
        self._hosts = {host.name: host for host in view.hosts if host.facts}
        self._targets = [host for name, host in self._hosts.items() if name in open_]
        self._gpus = {gpu.id: gpu.facts for gpu in view.gpus}
        self._allowed = allowed
        self._users = users
        self._desktops = desktops
        self._from_kind: dict[Hashable, dict[str, MoveRoute]] = {}
        self._from_host: dict[Hashable, dict[str, MoveRoute]] = {}

    def of(self, vm: VmRecord, held: Sequence[Allocation], *, runs: bool) -> VmMoveTargets:
        """By host; and where there is none, the first thing that keeps it from one."""
        needs = MoveNeeds(
            live=self._live_needs(held) if runs else None,
            stopped=self._stopped(vm) if runs else MoveMode.OFF,
            pools=frozenset(pool for pool, _ in vm.volumes),
        )
        found = self._ways(vm, held, needs)
        within = None if needs.stopped is None else MoveRoute(how=needs.stopped)
        if found or within is not None:
            return VmMoveTargets(ways=found, within=within)
        user = self._users.get(vm.id)
        why = user.words if user and self._allowed.cold else self._why_not(vm, held)
        return VmMoveTargets(ways={}, why=why)

    def _ways(
        self, vm: VmRecord, held: Sequence[Allocation], needs: MoveNeeds
    ) -> Mapping[str, MoveRoute]:
        """The same object for all VMs of a host that need the same."""
        found = self._from_host.get((vm.host, needs))
        if found is None:
            kind = _kind(self._hosts[vm.host]), needs
            if kind not in self._from_kind:
                self._from_kind[kind] = dict(self._routes(vm, held, needs))
            found = dict(self._from_kind[kind])
            found.pop(vm.host, None)
            self._from_host[vm.host, needs] = found
        return found

    def _routes(
        self, vm: VmRecord, held: Sequence[Allocation], needs: MoveNeeds
    ) -> Iterator[tuple[str, MoveRoute]]:
        """From a host like this VM's to every host, its own included."""
        known: dict[Hashable, MoveRoute | None] = {}
        for target in self._targets:
            kind = _kind(target), target.migration is None
            if kind not in known:
                known[kind] = self._route(vm, held, needs, target)
            route = known[kind]
            if route is not None:
                yield target.name, route

    def _route(
        self, vm: VmRecord, held: Sequence[Allocation], needs: MoveNeeds, target: HostRecord
    ) -> MoveRoute | None:
        live = needs.live is not None and next(self._failed(vm, held, target), None) is None
        how = MoveMode.LIVE if live else needs.stopped
        shared = shared_pools(self._hosts[vm.host].facts, target.facts)
        return None if how is None else MoveRoute(how=how, copies=not needs.pools <= shared)

    def _stopped(self, vm: VmRecord) -> MoveMode | None:
        return self._allowed.how(user=self._users.get(vm.id), desktop=vm.id in self._desktops)

    def _live_needs(self, held: Sequence[Allocation]) -> LiveNeeds:
        return LiveNeeds(
            migratable=all(each.framework in MIGRATABLE for each in held),
            nvidia=any(is_nvidia(self._gpus[each.gpu]) for each in held),
        )

    def _why_not(self, vm: VmRecord, held: Sequence[Allocation]) -> str:
        """What keeps a running VM from the last host."""
        others = (each for each in reversed(self._targets) if each.name != vm.host)
        last = next(others, None)
        if last is None:
            return "it moves within its host only while it is off"
        failed = next(self._failed(vm, held, last))
        return f"it cannot move running: {failed.text}"

    def _failed(
        self, vm: VmRecord, held: Sequence[Allocation], target: HostRecord
    ) -> Iterator[MoveCheck]:
        source = self._hosts[vm.host]
        here, there = source.facts, target.facts
        assert here is not None and there is not None
        checks = [
            *live_checks(vm, held, source, target, _unseen(vm)),
            *gpu_checks(vm, held, None, self._gpus, here, there),
        ]
        return (check for check in checks if not check.holds)


def _kind(host: HostRecord) -> Hashable:
    """What the checks of a move ask of a host, its migration address apart."""
    facts = host.facts
    assert facts is not None
    shared = (each for each in facts.pools if each.kind in SHARED_KINDS and each.active)
    pools = frozenset((each.name, each.kind, each.source) for each in shared)
    return facts.versions, facts.cpu_model, pools


def _unseen(vm: VmRecord) -> MoveReads:
    """The reads of a move without a look at the host: CPU models decide whether the CPU fits."""
    running = DomainFacts(name=vm.name, uuid="", state=DomainState.RUNNING)
    return MoveReads(domain=running, xml="", namesake=None)


def residents(
    view: LedgerView,
    fleet: Fleet,
    *,
    allowed: AllowedMoves = NOTHING,
    users: Mapping[str, UserAtWork] = MappingProxyType({}),
    desktops: Collection[str] = (),
) -> tuple[Resident, ...]:
    """VMs with parts of GPUs, each with its ways, as far as that is ``allowed``. ``users`` are at
    work, by the VM's id; ``desktops`` are a pool's.

    What is no resident (foreign, without a GPU part, on a host that was not reached, lost by its
    host) stays part of ``fleet``.
    """
    ways = FleetMoveTargets(view, fleet, allowed, users, desktops)
    return tuple(_ResidentSearch(view, fleet, ways, users).all())


class _ResidentSearch:
    def __init__(
        self,
        view: LedgerView,
        fleet: Fleet,
        ways: FleetMoveTargets,
        users: Mapping[str, UserAtWork],
    ) -> None:
        self._view = view
        self._hosts = {host.name: host for host in fleet.hosts}
        self._gpus = {gpu.id: gpu for host in fleet.hosts for gpu in host.gpus}
        self._models = {gpu.id: gpu.facts.model for gpu in view.gpus}
        self._running = observed_domains(view).running
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
            nic_functions=vm.nic_functions,
            partition=held[0].partition,
        )

    def _resident(self, vm: VmRecord, held: Sequence[Allocation], placed: Placed) -> Resident:
        stays = _stays(vm, held)
        runs = (vm.host, vm.name) in self._running
        if runs:
            request = wanted(self._view, vm.spec, (), "", live=False)
            gpus, affinity = own_parts(held, self._models), vm.spec.affinity
            placed = replace(placed, request=replace(request, gpus=gpus, affinity=affinity))
        found = VmMoveTargets(ways={}, why=stays) if stays else self._ways.of(vm, held, runs=runs)
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
