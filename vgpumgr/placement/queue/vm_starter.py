"""Starts one waiting VM or group, if need be by preemption of spot VMs, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.model.formats import span_words
from vgpumgr.model.licence import shortage_text
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueRules, QueueStart, RunningVm, WaitingVm, WaitReason
from vgpumgr.model.quota import Amount, Excess, excess_text
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.queue.backfill import BackfillReservations
from vgpumgr.placement.queue.queue_accounts import (
    QueueAccounts,
    ScratchFleet,
    claims_reserved,
    encroached_tenant,
)
from vgpumgr.placement.queue.tenant_shares import amount_of


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """``whatever``: it would have been refused however short it were. ``room``: it is room that it
    lacks, so keeping some for it helps.
    """

    why: WaitReason
    text: str
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    whatever: bool = True
    room: bool = False


def owner_of(each: WaitingVm) -> str:
    """The name under which capacity is reserved: the VM's own, or that of its group."""
    together = each.terms.together
    return f"{each.vm.tenant}/{together}" if together else each.vm.name


class VmStarter:
    """Starts VMs, and takes each start into the accounts at once."""

    def __init__(
        self, accounts: QueueAccounts, backfill: BackfillReservations, rules: QueueRules
    ) -> None:
        self._accounts, self._backfill, self._rules = accounts, backfill, rules

    def start(self, unit: Sequence[WaitingVm], now: float) -> list[QueueStart] | StartRefusal:
        """Start all VMs of the unit, or none and return why the first without a place has none."""
        starts: list[QueueStart] = []
        stopped: list[list[RunningVm]] = []
        for each in unit:
            found = self._start(each, now)
            if isinstance(found, StartRefusal):
                self._undo(starts, stopped)
                return _for_all(found, each, unit, len(starts))
            starts.append(found[0])
            stopped.append(found[1])
        for start in starts:
            self._backfill.started_beside(start.placed, owner_of(unit[0]))
        return starts

    def quota(self, each: WaitingVm) -> StartRefusal | None:
        """Why its tenant may not have it now, wherever it goes."""
        least = self._accounts.fleet_shares.least(self._accounts.scratch.demand(each.vm))
        excess = self._accounts.tenants.excess(each.vm.tenant, least)
        if not excess:
            return self._seat_refusal(least)
        never = self._accounts.tenants.beyond(each.vm.tenant, least)
        return StartRefusal(
            WaitReason.NEVER if never else WaitReason.QUOTA, _quota_text(never or excess)
        )

    def _start(
        self, each: WaitingVm, now: float
    ) -> tuple[QueueStart, list[RunningVm]] | StartRefusal:
        refused = self.quota(each) or self._job_class_refusal(each)
        if refused:
            return refused
        found = self._place(each, now)
        eviction = None
        if isinstance(found, StartRefusal):
            eviction = self._evict(each, now)
            if eviction is None:
                return found
            found = eviction.placed
        refused = self._may_have(each, found)
        if refused:
            return refused
        stopped = [self._accounts.end(name) for name in (eviction.victims if eviction else ())]
        self._accounts.start(RunningVm(placed=found, since=now, terms=each.terms))
        names = tuple(victim.vm.name for victim in stopped)
        return QueueStart(waiting=each, placed=found, preempts=names), stopped

    def _place(self, each: WaitingVm, now: float) -> Placed | StartRefusal:
        """A place on hosts without a reservation of others; else one that leaves a reservation
        true.
        """
        owner = owner_of(each)
        kept_for = {h: p for h, p in self._backfill.of_host.items() if p.owner != owner}
        decision = self._accounts.placer.decide(each.vm, explain=False, avoid=kept_for)
        if isinstance(decision, Placed):
            return decision
        runtime = each.terms.runtime_s
        ends_by = None if runtime is None else now + runtime
        in_the_way = None
        for host, reservation in kept_for.items():
            beside = self._accounts.scratch.fit((each.vm,), host)
            if beside is None:
                continue
            if self._backfill.allows(beside[0], ends_by):
                return beside[0]
            in_the_way = reservation
        if in_the_way is None:
            return StartRefusal(WaitReason.ROOM, "no host has enough free capacity", room=True)
        text = f"it fits on {in_the_way.host}, where capacity is reserved for {in_the_way.owner}"
        facts = {"host": in_the_way.host, "kept_for": in_the_way.owner}
        return StartRefusal(WaitReason.HELD_FOR_OTHERS, text, facts, whatever=False, room=True)

    def _evict(self, each: WaitingVm, now: float) -> Eviction | None:
        victims = list(self._victims(each))
        if not victims:
            return None
        owner = owner_of(each)
        barred = {h for h, p in self._backfill.of_host.items() if p.owner != owner}

        def cost(victim: RunningVm) -> float:
            return work_lost(victim, now, self._rules)

        return least_evicted(self._accounts.scratch, each.vm, victims, cost, barred)

    def _victims(self, each: WaitingVm) -> Iterator[RunningVm]:
        """Spot VMs of lower priority; of any where it claims what its tenant has reserved."""
        if not self._accounts.spot:
            return
        any_spot = not each.terms.spot and claims_reserved(self._accounts, each.vm)
        for victim in self._accounts.spot.values():
            if any_spot or victim.terms.priority < each.terms.priority:
                yield victim

    def _may_have(self, each: WaitingVm, placed: Placed) -> StartRefusal | None:
        """Rules that need the place: how large the parts are, and which tenant reserved them."""
        excess = self._accounts.tenants.excess(each.vm.tenant, amount_of(placed))
        if excess:
            return StartRefusal(WaitReason.QUOTA, _quota_text(excess))
        if refused := self._seat_refusal(amount_of(placed)):
            return refused
        if each.terms.spot:
            return None
        tenant = encroached_tenant(self._accounts, placed)
        if not tenant:
            return None
        text = f"its capacity is reserved for tenant {tenant}; only spot VMs may use it"
        return StartRefusal(WaitReason.HELD_FOR_OTHERS, text, {"tenant": tenant})

    def _seat_refusal(self, asked: Amount) -> StartRefusal | None:
        found = self._accounts.tenants.shortages(asked)
        text = "; ".join(map(shortage_text, found))
        return StartRefusal(WaitReason.LICENCE, text) if found else None

    def _job_class_refusal(self, each: WaitingVm) -> StartRefusal | None:
        least = self._accounts.fleet_shares.least(self._accounts.scratch.demand(each.vm))
        if self._accounts.job_classes.allows(each.terms, least):
            return None
        share, short_s = self._rules.kept_for_short, self._rules.short_s
        text = (
            f"{share:.0%} of the fleet is reserved for VMs that run at most {span_words(short_s)}"
        )
        return StartRefusal(WaitReason.HELD_FOR_OTHERS, text, {"short_s": short_s}, whatever=False)

    def _undo(self, starts: Sequence[QueueStart], stopped: Sequence[Sequence[RunningVm]]) -> None:
        for start, victims in zip(reversed(starts), reversed(stopped), strict=True):
            self._accounts.end(start.placed.request.name)
            for victim in reversed(victims):
                self._accounts.start(victim)


def _for_all(
    refusal: StartRefusal, each: WaitingVm, unit: Sequence[WaitingVm], fit: int
) -> StartRefusal:
    if len(unit) == 1 or refusal.why is WaitReason.NEVER:
        return refusal
    text = f"{fit} of the {len(unit)} VMs of {each.terms.together} could start; {each.vm.name}: "
    facts = {**refusal.facts, "could_start": fit, "members": len(unit)}
    return replace(refusal, why=WaitReason.TOGETHER, text=text + refusal.text, facts=facts)


def _quota_text(excess: Sequence[Excess]) -> str:
    return "; ".join(map(excess_text, excess))


_TRIES = 2000
"""Sets tried per host; beyond that the best so far is taken."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """With ``victims`` gone the VM fits as ``placed`` says; ``cost`` in GiB x seconds."""

    placed: Placed
    victims: tuple[str, ...]
    cost: float


def work_lost(each: RunningVm, now: float, rules: QueueRules) -> float:
    """The work that a preemption loses, in GiB x seconds: the time run and a restart, times the
    VM's memory and GPU memory.
    """
    mib = amount_of(each.placed).gpu_memory_mib + each.vm.memory_mib
    return mib / 1024 * (max(now - each.since, 0.0) + rules.restart_s)


def least_evicted(
    scratch: ScratchFleet,
    vm: VmSpec,
    victims: Collection[RunningVm],
    cost: Callable[[RunningVm], float],
    barred: Collection[str] = (),
) -> Eviction | None:
    """The cheapest set of ``victims`` on one host after whose preemption ``vm`` fits there, or
    None.

    VMs on ``barred`` hosts are not preempted. Exact up to 2,000 sets per host.
    """
    by_host: dict[str, list[tuple[float, str]]] = {}
    for each in victims:
        if each.placed.host not in barred:
            by_host.setdefault(each.placed.host, []).append((cost(each), each.vm.name))
    best: Eviction | None = None
    for host, found in sorted(by_host.items()):
        search = _VictimSearch(scratch, vm, host, sorted(found, reverse=True), best)
        best = search.run()
    return best


class _VictimSearch:
    """Branch and bound over the victims of one host: the dearest are spared first."""

    def __init__(
        self,
        scratch: ScratchFleet,
        vm: VmSpec,
        host: str,
        dearest_first: Sequence[tuple[float, str]],
        best: Eviction | None,
    ) -> None:
        self._scratch, self._vm, self._host = scratch, vm, host
        self._all, self._best = dearest_first, best
        self._left = _TRIES

    def run(self) -> Eviction | None:
        """The best so far, or a better one from this host."""
        names = [name for _, name in self._all]
        if self._scratch.fit((self._vm,), self._host, names) is not None:
            self._try(0, [], 0.0)
        return self._best

    def _try(self, number: int, gone: list[str], cost: float) -> None:
        """Decide on victim ``number``; ``gone`` are those chosen before it. With them and all later
        victims gone the VM fits.
        """
        if self._best is not None and cost >= self._best.cost:
            return
        if number == len(self._all):
            found = self._scratch.fit((self._vm,), self._host, gone)
            assert found is not None
            self._best = Eviction(found[0], tuple(sorted(gone)), cost)
            return
        price, name = self._all[number]
        later = [each for _, each in self._all[number + 1 :]]
        if self._left > 0:
            self._left -= 1
            if self._scratch.fit((self._vm,), self._host, [*gone, *later]) is not None:
                self._try(number + 1, gone, cost)
        self._try(number + 1, [*gone, name], cost + price)
