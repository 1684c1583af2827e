"""MIG, mixed-size, VFs, sizes, partitions: each decision against the supply it was made from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.boards import COUNTED, MIXED, UNITS, WHOLE
from tests.property.judge import answers, complaint, is_whole, replayed
from tests.property.scenes import gpus, host_of, part_of, parts, scenes, theme_of
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, FreeVf, GpuSupply, HostSupply, Offer
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import FITS, explain, headroom, place
from vgpumgr.placement.fit.gpu_rules import first_fit
from vgpumgr.placement.resources.demand import demand_of
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy

BREADTH = PlacementPolicy.BREADTH_FIRST


@settings(max_examples=150, deadline=None)
@given(scenes(most=6))
def test_every_decision_is_one_that_the_drivers_would_carry_out(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, batch = scene
    for request in batch:
        (decision,) = place(fleet, [request], BREADTH)
        if isinstance(decision, Placed):
            fleet = replayed(fleet, decision)


@settings(max_examples=120, deadline=None)
@given(scenes())
def test_a_batch_is_decided_as_if_the_fleet_were_looked_at_in_between(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, (request,) = scene
    batch = [replace(request, name=f"vm-{n}") for n in range(4)]
    for decision, request in zip(place(fleet, batch, BREADTH), batch, strict=True):
        (alone,) = place(fleet, [request], BREADTH)
        if not isinstance(decision, Placed):
            assert not isinstance(alone, Placed)
            return
        assert decision == alone
        fleet = replayed(fleet, decision)


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_headroom_copies_fit_and_not_one_more(scene: tuple[Fleet, list[VmSpec]]) -> None:
    fleet, (request,) = scene
    count = headroom(fleet, request, 40)
    batch = [replace(request, name=f"vm-{n}") for n in range(count + 1)]
    fits = [isinstance(decision, Placed) for decision in place(fleet, batch, BREADTH)]
    assert fits[:count] == [True] * count
    assert count == 40 or not fits[count]


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_headroom_of_sizes_is_what_the_requests_own_policy_places(policy: PlacementPolicy) -> None:
    """Which of two kinds of GPU a VM of two parts goes to is the policy's choice."""
    vfs = tuple(FreeVf(number=n, address=f"vf-{n}") for n in range(UNITS))
    same = GpuSupply(
        id="same",
        device="dev-same",
        model="T4",
        numa_node=None,
        units=UNITS,
        free_slots=tuple(range(UNITS)),
        offers=(*COUNTED, WHOLE),
        same_size=True,
        free_vfs=vfs[:3],
        passthrough_blocked="VFs are on",
    )
    mixed = replace(
        same,
        id="mixed",
        model="A40",
        offers=(*MIXED, WHOLE),
        same_size=False,
        mixed_size=True,
        free_vfs=vfs,
        passthrough_blocked="",
    )
    for pair in ((same, mixed), (mixed, same)):
        request = VmSpec(
            name="vm",
            vcpus=1,
            memory_mib=64,
            numa=NumaPolicy.NONE,
            policy=policy,
            gpus=(GpuRequest(memory_mib=1024, count=2),),
        )
        fleet = Fleet(hosts=(host_of("h1", pair),))
        copies = [replace(request, name=f"vm-{n}") for n in range(20)]
        placed = [isinstance(each, Placed) for each in place(fleet, copies, BREADTH)]
        assert headroom(fleet, request, 40) == sum(placed)


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_every_gpu_has_its_answer_and_some_fits_exactly_when_the_vm_is_placed(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, (request,) = scene
    told = explain(fleet, request)
    (decision,) = place(fleet, [request], BREADTH)
    assert [(r.host, r.gpu) for r in told] == [(h.name, g.id) for h in fleet.hosts for g in h.gpus]
    assert any(reason.code == FITS for reason in told) == isinstance(decision, Placed)
    if not isinstance(decision, Placed):
        assert decision.reasons == told
    assert all(reason.text for reason in told)


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_one_part_goes_to_just_those_gpus_where_a_place_is_legal(
    scene: tuple[Fleet, list[VmSpec]],
) -> None:
    fleet, (request,) = scene
    part = replace(request.gpus[0], count=1)
    verdicts = explain(fleet, replace(request, gpus=(part,)))
    possible = [_may_take(host, gpu, part) for host in fleet.hosts for gpu in host.gpus]
    assert [reason.code == FITS for reason in verdicts] == possible


def _may_take(host: HostSupply, gpu: GpuSupply, part: GpuRequest) -> bool:
    alone = not host.partitions or any(p.gpus == {gpu.id} for p in host.partitions)
    return any(
        not complaint(gpu, each) and (alone or not is_whole(offer))
        for offer in gpu.offers
        if answers(offer, part)
        for each in _everything(gpu, offer)
    )


def _everything(gpu: GpuSupply, offer: Offer) -> list[Assignment]:
    """All ways to put one of the offer on the GPU, legal or not."""
    if is_whole(offer):
        return [part_of(gpu, offer, gpu.free_slots, None)]
    found = [part_of(gpu, offer, gpu.free_slots[: offer.units], None)]
    found += [part_of(gpu, offer, start.slots[: offer.units], start) for start in offer.starts]
    for instance in gpu.instances:
        inside = part_of(gpu, offer, instance.free[: offer.units], None)
        found.append(replace(inside, start=instance.start))
    made = [replace(each, make_instance=True) for each in found]
    return found + made if offer.instance else found


@settings(max_examples=200, deadline=None)
@given(
    theme_of.flatmap(lambda theme: st.tuples(gpus("g", theme), st.lists(parts(theme), max_size=6)))
)
def test_what_is_given_back_leaves_no_trace(scene: tuple[GpuSupply, list[GpuRequest]]) -> None:
    gpu, wanted = scene
    state = GpuOccupancy("h", gpu, BoardBook())
    before, taken = _snapshot(state), []
    for part in wanted:
        request = VmSpec(name="vm", vcpus=1, memory_mib=64, gpus=(part,))
        demand = demand_of(request, BREADTH, founding=False)
        found = first_fit(state, demand.kinds[0], demand)
        if found is not None:
            taken.append((_snapshot(state), state.take(*found)))
    for then, each in reversed(taken):
        state.give_back(each)
        assert _snapshot(state) == then
    assert _snapshot(state) == before


def _snapshot(state: GpuOccupancy) -> tuple[object, ...]:
    grid = state.grid
    counts = (state.live, state.classes, state.parts)
    return (
        *(grid.free, grid.instances, state.free_units, state.used, state.whole, state.vfs_taken),
        *counts,
    )
