"""How a VM gets to each other host, and to other GPUs of its own, by the last observation. Pure.

The same checks as for a migration, but for those that need a look at the hosts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.engine.migration.checks import gpu_checks, live_checks
from vgpumgr.engine.migration.disks import SHARED_KINDS
from vgpumgr.engine.migration.looks import Looks
from vgpumgr.engine.migration.plan import Check
from vgpumgr.engine.pooling import AtWork
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.defrag import How, Way
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import Allocation, VmRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What may be done with running VMs that cannot move live. ``cold``: they may be stopped;
    ``with_users``: even where that cuts a user off; ``at_logoff``: desktops may be, each while
    nobody is at work on it.
    """

    cold: bool = False
    with_users: bool = False
    at_logoff: bool = False

    def how(self, *, user: AtWork | None, desktop: bool) -> How | None:
        """How one is moved; None: not at all."""
        if not (self.cold or (self.at_logoff and desktop)):
            return None
        if user is None or (self.with_users and self.cold):
            return How.COLD
        return How.LOGOFF if self.at_logoff else None


NOTHING = Allowed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The ways of a VM to other hosts, and within its own; ``why`` there are none."""

    ways: Mapping[str, Way]
    within: Way | None = None
    why: str = ""


class Ways:
    """Of all VMs, as far as it is allowed; ``users`` are at work, by the VM's id, ``desktops`` the
    ids of those that are a pool's.
    """

    def __init__(
        self,
        view: LedgerView,
        fleet: Fleet,
        allowed: Allowed,
        users: Mapping[str, AtWork],
        desktops: Collection[str],
    ) -> None:
        open_ = {host.name for host in fleet.hosts if not host.blocked}
        self._hosts = {host.name: host for host in view.hosts if host.facts}
        self._targets = [host for name, host in self._hosts.items() if name in open_]
        self._gpus = view.gpus
        self._allowed = allowed
        self._users = users
        self._desktops = desktops

    def of(self, vm: VmRecord, held: Sequence[Allocation], *, runs: bool) -> Found:
        """By host; and where there is none, the first thing that keeps it from one."""
        found: dict[str, Way] = {}
        why = "it moves within its host only while it is off"
        source, stopped = self._hosts[vm.host], self._stopped(vm) if runs else How.OFF
        for target in self._targets:
            if target.name == vm.host:
                continue
            failed = next(self._failed(vm, held, source, target), None) if runs else None
            how = How.LIVE if runs and failed is None else stopped
            if how is None:
                why = f"it cannot move running: {failed.text}" if failed and not found else why
                continue
            found[target.name] = Way(how=how, copies=_copies(vm, source, target))
        within = None if stopped is None else Way(how=stopped)
        if found or within is not None:
            return Found(ways=found, within=within)
        user = self._users.get(vm.id)
        return Found(ways={}, why=user.words if user and self._allowed.cold else why)

    def _stopped(self, vm: VmRecord) -> How | None:
        return self._allowed.how(user=self._users.get(vm.id), desktop=vm.id in self._desktops)

    def _failed(
        self, vm: VmRecord, held: Sequence[Allocation], source: HostRecord, target: HostRecord
    ) -> Iterator[Check]:
        here, there = source.facts, target.facts
        assert here is not None and there is not None
        checks = [
            *live_checks(vm, held, source, target, _unseen(vm)),
            *gpu_checks(vm, held, None, self._gpus, here, there),
        ]
        return (check for check in checks if not check.holds)


def _unseen(vm: VmRecord) -> Looks:
    """Nobody has looked: whether the CPU can be had is judged by the models."""
    running = DomainFacts(name=vm.name, uuid="", state=DomainState.RUNNING)
    return Looks(domain=running, xml="", namesake=None)


def _copies(vm: VmRecord, source: HostRecord, target: HostRecord) -> bool:
    """Whether some disk of it lies on no pool that both hosts share."""
    here, there = _shared(source.facts), _shared(target.facts)
    return not {pool for pool, _ in vm.volumes} <= here & there


def _shared(facts: HostFacts | None) -> set[str]:
    return {pool.name for pool in facts.pools if pool.kind in SHARED_KINDS} if facts else set()
