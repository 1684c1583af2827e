"""How a VM gets to each other host, as far as the last observation tells. Pure.

The same checks as for a migration, but for those that need a look at the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpumgr.engine.migration.checks import gpu_checks, live_checks
from vgpumgr.engine.migration.disks import SHARED_KINDS
from vgpumgr.engine.migration.looks import Looks
from vgpumgr.engine.migration.plan import Check
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.defrag import How, Way
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import Allocation, VmRecord


class Ways:
    """Of all VMs; ``cold``: a running one may be stopped where it cannot move live."""

    def __init__(self, view: LedgerView, fleet: Fleet, *, cold: bool) -> None:
        open_ = {host.name for host in fleet.hosts if not host.blocked}
        self._hosts = {host.name: host for host in view.hosts if host.facts}
        self._targets = [host for name, host in self._hosts.items() if name in open_]
        self._gpus = view.gpus
        self._cold = cold

    def of(
        self, vm: VmRecord, held: Sequence[Allocation], *, runs: bool
    ) -> tuple[Mapping[str, Way], str]:
        """By host; and where there is none, the first thing that keeps it from one."""
        found: dict[str, Way] = {}
        why = "there is no other host"
        source = self._hosts[vm.host]
        for target in self._targets:
            if target.name == vm.host:
                continue
            failed = next(self._failed(vm, held, source, target), None) if runs else None
            how = How.OFF if not runs else How.LIVE if failed is None else How.COLD
            if failed is not None and not self._cold:
                why = f"it cannot move running: {failed.text}" if not found else why
                continue
            found[target.name] = Way(how=how, copies=_copies(vm, source, target))
        return found, "" if found else why

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
