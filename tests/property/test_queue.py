"""The queue against brute force: on random fleets, and over random days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.placement_checker import complaints
from tests.property import test_placement_properties as counted
from tests.property.scenes import scenes
from tests.unit.placement.test_place import gpu, host
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueDecision, QueueRules, RunningVm, WaitingVm, WaitReason
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, Terms, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.fit.host_fit import commit, find_fit
from vgpumgr.placement.queue.tenant_shares import amount_of
from vgpumgr.placement.queue.vm_starter import work_lost
from vgpumgr.placement.queue.waiting_queue import WaitingQueue, turn
from vgpumgr.placement.resources.host_state import FleetState

DEPTH = PlacementPolicy.DEPTH_FIRST
TENANTS = ("a", "b")
NOW = 10_000.0

scenes = st.one_of(
    scenes(most=8),
    st.tuples(counted.fleets(), st.lists(counted.requests(), min_size=1, max_size=8)),
)


@st.composite
def terms(draw: st.DrawFn, names: Sequence[str] = ()) -> Terms:
    return Terms(
        priority=draw(st.sampled_from([0, 0, 100, -100])),
        spot=draw(st.booleans()),
        runtime_s=draw(st.sampled_from([None, 60.0, 600.0, 6000.0])),
        after=tuple(draw(st.sets(st.sampled_from(names), max_size=2))) if names else (),
        together=draw(st.sampled_from(["", "", "", "g"])),
    )


@st.composite
def lines(draw: st.DrawFn) -> tuple[Fleet, list[WaitingVm], list[WaitingVm]]:
    """A fleet, who would like to run already, and who waits."""
    fleet, batch = draw(scenes)
    made = []
    for number, request in enumerate(batch):
        tenant = draw(st.sampled_from(TENANTS))
        vm = replace(request, name=f"vm-{number}", tenant=tenant, policy=None)
        earlier = [f"vm-{n}" for n in range(number)]
        since = NOW - draw(st.sampled_from([0.0, 100.0, 5000.0]))
        made.append(WaitingVm(vm=vm, since=since, terms=draw(terms(earlier))))
    cut = draw(st.integers(0, len(made)))
    return fleet, made[:cut], made[cut:]


@st.composite
def quotas(draw: st.DrawFn) -> list[Quota]:
    limit = st.none() | st.integers(0, 4)
    return [
        Quota(
            tenant=tenant,
            gpus=draw(limit),
            vms=draw(limit),
            vcpus=draw(st.none() | st.integers(0, 12)),
            profiles=draw(st.sampled_from([{}, {"2Q": 1}, {"passthrough": 1}])),
        )
        for tenant in TENANTS
    ]


def begun(fleet: Fleet, wanted: Sequence[WaitingVm]) -> tuple[Placer, list[RunningVm]]:
    """A placer with those running that fit."""
    placer, running = Placer(fleet, DEPTH), []
    for each in wanted:
        placed = placer.decide(each.vm)
        if isinstance(placed, Placed):
            placer.commit(placed)
            running.append(RunningVm(placed=placed, since=each.since, terms=each.terms))
    return placer, running


def standing(found: QueueDecision, running: Sequence[RunningVm]) -> list[Placed]:
    """What holds a place after the turn."""
    stopped = {name for start in found.starts for name in start.preempts}
    kept = [each.placed for each in running if each.vm.name not in stopped]
    return [*kept, *(start.placed for start in found.starts)]


def state_with(fleet: Fleet, placed: Sequence[Placed]) -> FleetState:
    state = FleetState(fleet)
    hosts = {each.name: each for each in state.hosts}
    for each in placed:
        commit(state, hosts[each.host], each, state.digest(each.request, DEPTH))
    return state


def fitting(state: FleetState, vm: VmSpec) -> set[str]:
    """Hosts on which it fits, each looked at by itself."""
    demand = state.digest(vm, DEPTH)
    return {each.name for each in state.hosts if find_fit(each, demand)}


def held_by(placed: Sequence[Placed], tenant: str) -> Amount:
    return sum(
        (amount_of(each) for each in placed if each.request.tenant == tenant), start=Amount()
    )


@settings(max_examples=60, deadline=None)
@given(lines(), quotas(), st.sampled_from([0, 1, 3]))
def test_one_turn_breaks_no_rule_and_says_only_what_is_true(
    line: tuple[Fleet, list[WaitingVm], list[WaitingVm]], limits: list[Quota], heads: int
) -> None:
    fleet, before, waiting = line
    placer, running = begun(fleet, before)
    already = {t: held_by([each.placed for each in running], t) for t in TENANTS}
    ended = tuple(each.vm.name for each in before[::2])
    ended = tuple(name for name in ended if name not in {r.vm.name for r in running})
    found = turn(placer, waiting, running, limits, NOW, rules=QueueRules(heads=heads), ended=ended)
    after = standing(found, running)

    # All are accounted for, and what stands is legal.
    names = [s.waiting.vm.name for s in found.starts] + [w.waiting.vm.name for w in found.waits]
    assert sorted(names) == sorted(each.vm.name for each in waiting)
    assert [each.position for each in found.waits] == list(range(1, len(found.waits) + 1))
    assert complaints(fleet, after) == []

    # Quotas: nobody is beyond one, but by what ran before.
    for quota in limits:
        mine = held_by([s.placed for s in found.starts], quota.tenant)
        if mine.vms:
            assert not quota.exceeded_by(held_by(after, quota.tenant) - mine, mine)
        assert already[quota.tenant].vms >= 0

    # Dependencies, groups, victims.
    groups: dict[tuple[str, str], set[bool]] = {}
    started = {start.waiting.vm.name for start in found.starts}
    for each in waiting:
        if each.vm.name in started:
            assert set(each.terms.after) <= set(ended)
        if each.terms.together:
            key = each.vm.tenant, each.terms.together
            groups.setdefault(key, set()).add(each.vm.name in started)
    assert all(len(starts) == 1 for starts in groups.values())
    ran = {each.vm.name: each for each in running}
    for start in found.starts:
        for name in start.preempts:
            assert ran[name].terms.spot
            assert ran[name].terms.priority < start.waiting.terms.priority

    check_reasons(fleet, found, after, limits, ended)


def check_reasons(
    fleet: Fleet,
    found: QueueDecision,
    after: list[Placed],
    limits: list[Quota],
    ended: Sequence[str],
) -> None:
    state = state_with(fleet, after)
    kept = {each.host: each.name for each in found.reservations}
    owners = {each.host for each in found.reservations}
    for wait in found.waits:
        vm, room = wait.waiting.vm, fitting(state, wait.waiting.vm)
        if wait.why is WaitReason.ROOM:
            assert not room
        elif wait.why is WaitReason.HELD_FOR_OTHERS:
            assert room
            assert room <= owners
            assert all(kept[name] != vm.name for name in room)
        elif wait.why is WaitReason.AFTER:
            assert set(wait.waiting.terms.after) - set(ended)
        elif wait.why in (WaitReason.QUOTA, WaitReason.NEVER):
            assert any(quota.tenant == vm.tenant for quota in limits)
        else:
            assert wait.waiting.terms.together
        assert wait.text


# --- preemption, against every set of victims ---


@settings(max_examples=40, deadline=None)
@given(scenes, st.lists(st.tuples(st.integers(0, 3000), st.booleans()), min_size=8, max_size=8))
def test_the_cheapest_victims_are_found(
    scene: tuple[Fleet, list[VmSpec]], lives: list[tuple[int, bool]]
) -> None:
    fleet, batch = scene
    *others, wanted = (replace(each, name=f"vm-{n}", policy=None) for n, each in enumerate(batch))
    before = [
        WaitingVm(vm=vm, since=NOW - age, terms=Terms(spot=spot))
        for vm, (age, spot) in zip(others, lives, strict=False)
    ]
    placer, running = begun(fleet, before)
    boss = WaitingVm(vm=wanted, since=NOW, terms=Terms(priority=100))
    found = turn(placer, [boss], running, [], NOW)
    rules = QueueRules()
    prices = {each.vm.name: work_lost(each, NOW, rules) for each in running}
    cheapest = min(_costs(fleet, running, wanted, prices), default=None)
    if not found.starts:
        assert cheapest is None
        return
    assert cheapest is not None
    paid = sum(prices[name] for name in found.starts[0].preempts)
    assert abs(paid - cheapest) <= 1e-6 * max(1.0, cheapest)


def _costs(
    fleet: Fleet, running: Sequence[RunningVm], wanted: VmSpec, prices: dict[str, float]
) -> Iterator[float]:
    """What every set of spot VMs costs, all on one host, with which gone it fits there."""
    for name in [each.name for each in fleet.hosts]:
        spot = [r for r in running if r.terms.spot and r.placed.host == name]
        sets = chain.from_iterable(combinations(spot, n) for n in range(len(spot) + 1))
        for gone in sets:
            lost = {each.vm.name for each in gone}
            left = [each.placed for each in running if each.vm.name not in lost]
            if name in fitting(state_with(fleet, left), wanted):
                yield sum(prices[each] for each in lost)


# --- days: what comes, runs and ends ---


@dataclass(frozen=True)
class Job:
    at: float
    lasts: float
    each: WaitingVm


@st.composite
def days(draw: st.DrawFn) -> tuple[Fleet, list[Job]]:
    """Hosts with GPUs of 16 units, and requests whose bounds are true."""
    fleet = Fleet(
        hosts=tuple(
            host(f"h{n}", *(gpu(f"h{n}g{m}") for m in range(draw(st.integers(1, 3)))), vcpus=12)
            for n in range(draw(st.integers(1, 3)))
        )
    )
    jobs, at = [], 0.0
    for number in range(draw(st.integers(2, 14))):
        at += draw(st.sampled_from([0.0, 10.0, 90.0]))
        lasts = draw(st.sampled_from([20.0, 100.0, 400.0]))
        count = draw(st.sampled_from([1, 1, 2, 3]))
        profile = draw(st.sampled_from(["T4-8Q", "passthrough", "passthrough"]))
        vm = VmSpec(
            name=f"j{number}",
            vcpus=draw(st.integers(1, 5)),
            memory_mib=1024,
            gpus=(GpuRequest(profile=profile, count=count),),
        )
        bound = lasts * draw(st.sampled_from([1.0, 1.0, 3.0]))
        jobs.append(Job(at, lasts, WaitingVm(vm=vm, since=at, terms=Terms(runtime_s=bound))))
    return fleet, jobs


def live(
    fleet: Fleet, jobs: Sequence[Job], rules: QueueRules
) -> Iterator[tuple[float, WaitingQueue, list[str]]]:
    """Event by event: the time, the queue after its turn, and what started."""
    queue = WaitingQueue(Placer(fleet, DEPTH), rules=rules)
    lasts = {job.each.vm.name: job.lasts for job in jobs}
    coming, ends = list(jobs), list[tuple[float, str]]()
    while coming or ends:
        now = min([*(job.at for job in coming[:1]), *(at for at, _ in ends)])
        for at, name in sorted(ends):
            if at <= now:
                queue.end(name)
        ends = [each for each in ends if each[0] > now]
        while coming and coming[0].at <= now:
            queue.add(coming.pop(0).each)
        started = [start.waiting.vm.name for start in queue.turn(now)]
        ends += [(now + lasts[name], name) for name in started]
        yield now, queue, started


def possible(fleet: Fleet, job: Job) -> bool:
    return bool(fitting(FleetState(fleet), job.each.vm))


@settings(max_examples=40, deadline=None)
@given(days(), st.sampled_from([1, 2]))
def test_what_is_promised_is_kept_where_bounds_are_true(
    day: tuple[Fleet, list[Job]], heads: int
) -> None:
    fleet, jobs = day
    promised: dict[str, float] = {}
    for now, queue, started in live(
        fleet, jobs, QueueRules(heads=heads, aging_s=1e9, overdue_s=1e9)
    ):
        for name in started:
            assert now <= promised.pop(name, now)
        for name, by in promised.items():
            assert now <= by, name
        for promise in queue.backfill.of_host.values():
            assert promise.by is not None
            assert promise.by <= promised.get(promise.owner, promise.by)
            promised[promise.owner] = promise.by


@settings(max_examples=25, deadline=None)
@given(days())
def test_nobody_starves(day: tuple[Fleet, list[Job]]) -> None:
    """Small short work comes without end; everyone else starts all the same."""
    fleet, jobs = day
    jobs = [job for job in jobs if possible(fleet, job)]
    assume(jobs)
    wave = VmSpec(name="w", vcpus=1, memory_mib=1024, gpus=(GpuRequest(profile="T4-8Q"),))
    pressing = [
        Job(10.0 * n, 45.0, WaitingVm(vm=replace(wave, name=f"w{n}"), since=10.0 * n,
                                    terms=Terms(runtime_s=45.0)))
        for n in range(400)
    ]  # fmt: skip
    everyone = sorted([*jobs, *pressing], key=lambda job: job.at)
    rules = QueueRules(heads=1, aging_s=200.0)
    waited = {job.each.vm.name: job.at for job in jobs}
    longest = sum(job.lasts * 3 for job in jobs)
    for now, _, started in live(fleet, everyone, rules):
        for name in started:
            waited.pop(name, None)
        for name, at in waited.items():
            assert now < at + 2 * rules.aging_s + longest + 45.0 * len(jobs), name
        if not waited:
            break
    assert not waited
