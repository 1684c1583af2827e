"""Accounts of the queue: running VMs on a scratch fleet, tenant use and reserved capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from vgpumgr.model.licence import Licence
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueRules, RunningVm
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.host_fit import commit, find_fit, proposal, release
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.tenant_shares import FleetShares, JobClasses, TenantShares, amount_of
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.host_state import FleetState, HostState

_DEPTH = PlacementPolicy.DEPTH_FIRST


class ScratchFleet:
    """The hosts of a fleet with what runs on them.

    ``on[host]`` are the VMs there, by name.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._state = FleetState(fleet)
        self._hosts: dict[str, HostState] = {host.name: host for host in self._state.hosts}
        self.on: dict[str, dict[str, RunningVm]] = {name: {} for name in self._hosts}
        self.running: dict[str, RunningVm] = {}

    @property
    def hosts(self) -> Iterable[str]:
        """In the fleet's order."""
        return self._hosts

    def put(self, each: RunningVm) -> None:
        """It runs from now on."""
        self._commit(each.placed)
        self.on[each.placed.host][each.vm.name] = each
        self.running[each.vm.name] = each

    def remove(self, name: str) -> RunningVm:
        """It has left."""
        each = self.running.pop(name)
        del self.on[each.placed.host][name]
        self._release(each.placed)
        return each

    def demand(self, vm: VmSpec) -> Demand:
        """Two VMs with equal demands are interchangeable."""
        return self._state.digest(vm, _DEPTH)

    def fit(
        self,
        vms: Sequence[VmSpec],
        host: str,
        gone: Iterable[str] = (),
        come: Sequence[Placed] = (),
    ) -> tuple[Placed, ...] | None:
        """Where these VMs would go on a host, all of them, if ``gone`` had left and ``come`` were
        there; None where they do not fit. Nothing changes.
        """
        with self._if(gone, come):
            found = self._place(vms, (host,), all_or_none=True)
        return tuple(found) if len(found) == len(vms) else None

    def room_for(
        self, vms: Sequence[VmSpec], gone: Iterable[str], come: Sequence[Placed] = ()
    ) -> int:
        """How many of these find room anywhere, one after the other, with ``gone`` gone and
        ``come`` there. Nothing changes.
        """
        with self._if(gone, come):
            return len(self._place(vms, tuple(self._hosts), all_or_none=False))

    @contextmanager
    def _if(self, gone: Iterable[str], come: Sequence[Placed]) -> Iterator[None]:
        """A context in which ``gone`` have left and ``come`` are there; names of no running VM are
        skipped.
        """
        left = [self.running[name].placed for name in gone if name in self.running]
        for each in left:
            self._release(each)
        for each in come:
            self._commit(each)
        yield
        for each in reversed(come):
            self._release(each)
        for each in reversed(left):
            self._commit(each)

    def _place(
        self, vms: Sequence[VmSpec], hosts: Sequence[str], *, all_or_none: bool
    ) -> list[Placed]:
        """Where these find room one beside the other; nothing stays committed."""
        found: list[Placed] = []
        for vm in vms:
            tried = (self._fit(vm, host) for host in hosts)
            placed = next((each for each in tried if each is not None), None)
            if placed is not None:
                self._commit(placed)
                found.append(placed)
            elif all_or_none:
                break
        for each in reversed(found):
            self._release(each)
        return found

    def _fit(self, vm: VmSpec, host: str) -> Placed | None:
        demand = self.demand(vm)
        fit = find_fit(self._hosts[host], demand)
        return proposal(fit, vm, demand) if fit else None

    def _commit(self, placed: Placed) -> None:
        commit(self._state, self._hosts[placed.host], placed, self.demand(placed.request))

    def _release(self, placed: Placed) -> None:
        release(self._state, self._hosts[placed.host], placed, self.demand(placed.request))


class QueueAccounts:
    """The placer and the ground, tenants and lanes: always in step."""

    def __init__(
        self,
        placer: Placer,
        quotas: Sequence[Quota],
        held: Mapping[str, Amount],
        rules: QueueRules,
        licences: Sequence[Licence] = (),
    ) -> None:
        self.placer = placer
        self.scratch = ScratchFleet(placer.fleet)
        self.fleet_shares = FleetShares(placer.fleet)
        self.tenants = TenantShares(quotas, held, self.fleet_shares, licences)
        self.job_classes = JobClasses(rules, self.fleet_shares)
        self.spot: dict[str, RunningVm] = {}

    def take_in(self, each: RunningVm) -> None:
        """Count a VM that the placer holds already."""
        amount = amount_of(each.placed)
        self.scratch.put(each)
        self.tenants.take(each.vm.tenant, amount)
        self.job_classes.take(each.terms, amount)
        if each.terms.spot:
            self.spot[each.vm.name] = each

    def start(self, each: RunningVm) -> None:
        """It takes its place."""
        self.placer.commit(each.placed)
        self.take_in(each)

    def end(self, name: str) -> RunningVm:
        """It gives its place back."""
        each = self.scratch.remove(name)
        amount = amount_of(each.placed)
        self.placer.release(each.placed)
        self.tenants.give(each.vm.tenant, amount)
        self.job_classes.give(each.terms, amount)
        self.spot.pop(name, None)
        return each


def claims_reserved(accounts: QueueAccounts, vm: VmSpec) -> bool:
    """Whether all GPU parts of the VM are reserved for its tenant, which does not hold them yet."""
    left = accounts.tenants.unclaimed().get(vm.tenant, {})
    asked = accounts.fleet_shares.least(accounts.scratch.demand(vm)).profiles
    return bool(asked) and all(left.get(name, 0) >= count for name, count in asked.items())


def encroached_tenant(accounts: QueueAccounts, placed: Placed) -> str:
    """The tenant of whose reserved parts fewer would fit beside ``placed``; empty where there is
    none.
    """
    for tenant, parts in accounts.tenants.unclaimed().items():
        if tenant == placed.request.tenant:
            continue
        wanted = _stand_ins(parts)
        before = accounts.scratch.room_for(wanted, accounts.spot)
        if accounts.scratch.room_for(wanted, accounts.spot, (placed,)) < before:
            return tenant
    return ""


def _stand_ins(parts: Mapping[str, int]) -> list[VmSpec]:
    """A VM per reserved part that asks for nothing but the part."""
    return [
        VmSpec(
            name="reserved",
            vcpus=0,
            memory_mib=0,
            gpus=(GpuRequest(profile=profile),),
            numa=NumaPolicy.NONE,
        )
        for profile, count in sorted(parts.items())
        for _ in range(count)
    ]
