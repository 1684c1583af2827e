"""Moves that make room: few, feasible one after the other, and a reason where there are none."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.placement.repacking.checker import check
from benchmarks.placement.repacking.snapshots import Snapshot, shapes, snapshot
from tests.placement_checker import complaints
from vgpumgr.model.defrag import (
    DefragMoves,
    EmptyGpus,
    FreeRoom,
    MoveMode,
    MoveRoute,
    NoDefragMoves,
    Resident,
)
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement import Placer
from vgpumgr.placement.defrag.move_search import plan_moves

SHAPES = shapes()


def of(snap: Snapshot, *, most: int | None = None, **goal: int) -> DefragMoves | NoDefragMoves:
    return plan_moves(snap.fleet, snap.residents, EmptyGpus(**goal), most=most)


def with_residents(snap: Snapshot, *residents: Resident) -> Snapshot:
    return replace(snap, residents=residents)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_step_is_feasible(name: str, seed: int) -> None:
    snap = snapshot(SHAPES[name], 16, seed)
    wanted = snap.allowed - 1
    found = of(snap, gpus=wanted)
    assert isinstance(found, DefragMoves)
    check(snap.fleet, snap.residents, found.moves, wanted)


def small(name: str, seed: int) -> Snapshot:
    """Four hosts with a GPU each, and at most six VMs."""
    shape = replace(SHAPES[name], per_host=1)
    snap = snapshot(shape, 4, seed)
    return with_residents(snap, *snap.residents[:6])


KINDS = ["1-D", "same-size", "host limits", "anti-affinity"]


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 10_000), empty=st.integers(1, 3))
@example(seed=1364, empty=2)  # not everybody may have the tightest seat
@settings(max_examples=15, deadline=None, derandomize=True)
def test_no_fewer_moves_would_do(name: str, seed: int, empty: int) -> None:
    """Of these: that there never are fewer is not promised."""
    snap = small(name, seed)
    found, least = of(snap, gpus=empty), fewest_by_force(snap, empty)
    if least is None:
        assert isinstance(found, NoDefragMoves)
    else:
        assert isinstance(found, DefragMoves)
        check(snap.fleet, snap.residents, found.moves, empty)
        assert len(found.moves) - sum(move.hop for move in found.moves) == least


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 10_000), empty=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_the_fewest_is_said_only_of_those(name: str, seed: int, empty: int) -> None:
    snap = small(name, seed)
    found, least = of(snap, gpus=empty), fewest_by_force(snap, empty)
    if isinstance(found, DefragMoves):
        assert least is not None
        check(snap.fleet, snap.residents, found.moves, empty)
        assert not found.fewest or len(found.moves) == least


def fewest_by_force(snap: Snapshot, empty: int) -> int | None:
    """Every VM on every GPU; counted slots alone."""
    gpus = [(host, gpu) for host in snap.fleet.hosts for gpu in host.gpus]
    homes = [each.placed.assignments[0].gpu for each in snap.residents]
    best: int | None = None
    for places in product(range(len(gpus)), repeat=len(snap.residents)):
        moved = sum(gpus[at][1].id != home for at, home in zip(places, homes, strict=True))
        if len(gpus) - len(set(places)) < empty or (best is not None and moved >= best):
            continue
        if all(
            _holds(snap, gpus[n], [i for i, at in enumerate(places) if at == n])
            for n in set(places)
        ):
            best = moved
    return best


def _holds(snap: Snapshot, place: tuple, here: list[int]) -> bool:  # type: ignore[type-arg]
    host, gpu = place
    vms = [snap.residents[number].placed for number in here]
    sizes = [vm.assignments[0].offer.units for vm in vms]
    groups = [vm.request.labels["group"] for vm in vms if vm.request.labels]
    return (
        sum(sizes) <= gpu.units
        and (not gpu.same_size or len(set(sizes)) == 1)
        and sum(vm.request.vcpus for vm in vms) <= host.free_vcpus
        and sum(vm.request.memory_mib for vm in vms) <= host.free_memory_mib
        and len(groups) == len(set(groups))
    )


@pytest.mark.parametrize(("name", "profile"), [("MIG", "4g.40gb"), ("same-size", "A40-24Q")])
def test_room_is_made_for_requests(name: str, profile: str) -> None:
    snap = snapshot(SHAPES[name], 16, 5)
    request = VmSpec(name="big", vcpus=2, memory_mib=1024, gpus=(GpuRequest(profile=profile),))
    for count in range(1, 16):
        found = plan_moves(snap.fleet, snap.residents, FreeRoom(request=request, count=count))
        assert isinstance(found, DefragMoves)
        assert placed_after(snap, found, request, count) == []
        if found.moves:
            return
    pytest.fail("no count needs a move")


def placed_after(snap: Snapshot, found: DefragMoves, request: VmSpec, count: int) -> list[str]:
    """What is wrong with the VMs after the moves and so many of the request on top."""
    at = {each.placed.request.name: each.placed for each in snap.residents}
    for move in found.moves:
        at[move.vm] = move.target
    placer = Placer(snap.fleet, PlacementPolicy.DEPTH_FIRST)
    for placed in at.values():
        placer.commit(placed)
    live = [*at.values()]
    for number in range(count):
        decision = placer.decide(replace(request, name=f"big-{number}"))
        assert isinstance(decision, Placed)
        placer.commit(decision)
        live.append(decision)
    return complaints(snap.fleet, live)


def test_a_vm_that_stays_is_left_alone_and_named() -> None:
    snap = snapshot(SHAPES["1-D"], 16, 0)
    first = snap.residents[0]
    stuck = [replace(each, ways={}, stays="it was adopted") for each in snap.residents]
    found = of(with_residents(snap, *stuck), gpus=snap.allowed)
    assert isinstance(found, NoDefragMoves)
    assert f"{first.placed.request.name} stays: it was adopted" in {o.text for o in found.obstacles}


def test_ways_are_kept() -> None:
    snap = snapshot(SHAPES["1-D"], 16, 0)
    only = {host.name: MoveRoute(how=MoveMode.COLD, copies=True) for host in snap.fleet.hosts[:8]}
    moved = [replace(each, ways=only, disk_mib=4096) for each in snap.residents]
    found = of(with_residents(snap, *moved), gpus=3)
    assert isinstance(found, DefragMoves)
    assert {move.target.host for move in found.moves} <= set(only)
    assert {(move.mib, move.pause_s) for move in found.moves} == {(4096, 4)}


def test_more_moves_than_allowed_are_counted() -> None:
    snap = snapshot(SHAPES["1-D"], 16, 0)
    found = of(snap, gpus=6)
    assert isinstance(found, DefragMoves)
    refused = of(snap, most=1, gpus=6)
    assert isinstance(refused, NoDefragMoves)
    assert refused.needs == len(found.moves)


def test_a_goal_that_is_reached_needs_no_moves() -> None:
    snap = snapshot(SHAPES["1-D"], 16, 0)
    assert of(with_residents(snap), gpus=16) == DefragMoves(moves=(), fewest=True)
    assert of(with_residents(snap), gpus=17) == NoDefragMoves(reachable=16)


def test_blocked_gpus_and_hosts_are_named() -> None:
    snap = snapshot(SHAPES["1-D"], 16, 0)
    first, second, *rest = snap.fleet.hosts
    ill = replace(first, gpus=(replace(first.gpus[0], blocked="quarantined: Xid 79"),))
    hosts = (ill, replace(second, blocked="cordoned"), *rest)
    found = plan_moves(Fleet(hosts=hosts), (), EmptyGpus(gpus=16))
    assert isinstance(found, NoDefragMoves)
    assert [each.text for each in found.obstacles] == ["quarantined: Xid 79", "cordoned"]
