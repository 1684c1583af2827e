"""A fleet on which VMs come and go: the placer against brute force, and against a checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement_checker import complaints
from tests.property import test_placement_properties as counted
from tests.property.scenes import scenes
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.fit.host_fit import Fit, commit, find_fit, proposal, release
from vgpumgr.placement.resources.host_state import FleetState, HostState

LEAST = PlacementPolicy.CAPACITY_FIRST
Scene = tuple[Fleet, list[VmSpec]]

policies = st.sampled_from(PlacementPolicy)
scenes = st.one_of(
    scenes(most=5),
    st.tuples(counted.fleets(), st.lists(counted.requests(), min_size=1, max_size=5)),
)
turns = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=14)


class Brute:
    """Every host looked at anew for every request."""

    def __init__(self, fleet: Fleet, policy: PlacementPolicy) -> None:
        self.state = FleetState(fleet)
        self._policy = policy

    def fits(self, request: VmSpec) -> list[Fit]:
        demand = self.state.digest(request, self._policy)
        return [fit for host in self.state.hosts if (fit := find_fit(host, demand))]

    def best(self, request: VmSpec) -> Placed | None:
        best = min(self.fits(request), key=lambda fit: fit.score, default=None)
        demand = self.state.digest(request, self._policy)
        return proposal(best, request, demand) if best else None

    def take(self, placed: Placed) -> None:
        commit(self.state, self._host(placed), placed, self._demand(placed))

    def give_back(self, placed: Placed) -> None:
        release(self.state, self._host(placed), placed, self._demand(placed))

    def _host(self, placed: Placed) -> HostState:
        return next(host for host in self.state.hosts if host.name == placed.host)

    def _demand(self, placed: Placed):  # type: ignore[no-untyped-def]
        return self.state.digest(placed.request, self._policy)


def named(batch: Sequence[VmSpec]) -> list[VmSpec]:
    return [replace(request, name=f"vm-{n}") for n, request in enumerate(batch)]


@settings(max_examples=100, deadline=None)
@given(scenes, policies, turns)
def test_the_placer_answers_as_brute_force_does_and_the_checker_agrees(
    scene: Scene, policy: PlacementPolicy, order: list[tuple[int, bool]]
) -> None:
    fleet, batch = scene
    placer, brute = Placer(fleet, policy), Brute(fleet, policy)
    live: list[Placed] = []
    for turn, (which, leaves) in enumerate(order):
        if leaves and live:
            gone = live.pop(which % len(live))
            placer.release(gone)
            brute.give_back(gone)
            continue
        request = replace(batch[which % len(batch)], name=f"vm-{turn}")
        decision = placer.decide(request)
        if (request.policy or policy) is LEAST:
            assert isinstance(decision, Placed) == bool(brute.fits(request))
        else:
            best = brute.best(request)
            assert (decision if isinstance(decision, Placed) else None) == best
        if isinstance(decision, Placed):
            placer.commit(decision)
            brute.take(decision)
            live.append(decision)
            assert complaints(fleet, live) == []


@settings(max_examples=50, deadline=None)
@given(scenes, policies, st.randoms(use_true_random=False))
def test_what_comes_and_goes_leaves_no_trace(
    scene: Scene, policy: PlacementPolicy, random: object
) -> None:
    fleet, batch = scene
    batch = named(batch)
    placer, fresh = Placer(fleet, policy), Placer(fleet, policy)
    assert [placer.decide(each) for each in batch] == [fresh.decide(each) for each in batch]
    live = []
    for request in batch:
        decision = placer.decide(request)
        if isinstance(decision, Placed):
            placer.commit(decision)
            live.append(decision)
    random.shuffle(live)  # type: ignore[attr-defined]
    for placed in live:
        placer.release(placed)
    assert [_seen(host) for host in placer._state.hosts] == [
        _seen(host) for host in fresh._state.hosts
    ]
    assert placer.fragmentation() == fresh.fragmentation()
    assert [placer.decide(each) for each in batch] == [fresh.decide(each) for each in batch]


def _seen(host: HostState) -> object:
    return (
        host.free_vcpus, host.memory_mib, host.affinity_counts.vms,
        [(node.cpus, node.memory_mib, node.pages) for node in host.nodes],
        [
            (g.grid.free, g.grid.instances, g.parts, g.vfs, g.live, g.classes)
            for g in host.gpus
        ],
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(scenes, policies, st.sampled_from([None, 1, 2]), st.permutations(range(9)))
def test_names_of_hosts_do_not_matter(
    scene: Scene, policy: PlacementPolicy, seed: int | None, names: list[int]
) -> None:
    fleet, batch = scene
    renamed = Fleet(
        hosts=tuple(
            replace(host, name=f"n{names[n]}-renamed") for n, host in enumerate(fleet.hosts)
        )
    )
    first, second = Placer(fleet, policy, seed=seed), Placer(renamed, policy, seed=seed)
    for request in named(batch):
        request = replace(request, affinity=replace(request.affinity, hosts=()))
        here, there = first.decide(request), second.decide(request)
        if not isinstance(here, Placed):
            assert not isinstance(there, Placed)
            continue
        assert isinstance(there, Placed)
        numbers = [h.name for h in fleet.hosts].index(here.host)
        assert renamed.hosts[numbers].name == there.host
        assert replace(there, host=here.host) == here
        first.commit(here)
        second.commit(there)


@settings(max_examples=25, deadline=None)
@given(scenes, st.lists(policies, min_size=2, max_size=4))
def test_a_placer_with_a_mix_accepts_what_one_without_accepts(
    scene: Scene, own: list[PlacementPolicy]
) -> None:
    """The mix ranks and refuses nothing. Types of several policies live side by side."""
    fleet, batch = scene
    batch = [
        replace(each, policy=own[n % len(own)], numa=each.numa or NumaPolicy.NONE)
        for n, each in enumerate(named(batch))
    ]
    mixed = Placer(fleet, LEAST, mix=Mix.of(batch), values=False)
    plain = Placer(fleet, LEAST)
    for request in batch:
        assert isinstance(mixed.decide(request), Placed) == isinstance(
            plain.decide(request), Placed
        )
