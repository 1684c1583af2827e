"""Defragmentation planned on one working copy, against a fleet that is built anew for each goal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.placement.repacking.snapshots import Snapshot, shapes, snapshot
from vgpumgr.engine.defrag.defrag_plan import SharesAfterMoves, lower
from vgpumgr.model.defrag import DefragMoves, EmptyGpus, NoDefragMoves, Resident, VmMove
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.placement import Mix
from vgpumgr.placement.defrag.move_search import MovePlanner, plan_moves
from vgpumgr.placement.request_mix import creatable

SHAPES = shapes()


def largest(snap: Snapshot) -> Mix:
    """A mix of the two largest parts alone: GPUs that are half full are of no use to it."""
    found = [
        (each, request) for request, _ in creatable(snap.fleet).requests for each in request.gpus
    ]
    sizes = {o.profile: o.units for h in snap.fleet.hosts for gpu in h.gpus for o in gpu.offers}
    found.sort(key=lambda pair: -sizes[pair[0].profile])
    parts: list[GpuRequest] = [part for part, _ in found[:2]]
    return Mix(tuple((VmSpec(name="", vcpus=0, memory_mib=0, gpus=(part,)), 1.0) for part in parts))


def moved(residents: tuple[Resident, ...], moves: tuple[VmMove, ...]) -> list[Resident]:
    to = {move.vm: move.target for move in moves}
    return [
        replace(each, placed=to.get(each.placed.request.name, each.placed)) for each in residents
    ]


def empty_now(snap: Snapshot) -> int:
    taken = {part.gpu for each in snap.residents for part in each.placed.assignments}
    gpus = [gpu for host in snap.fleet.hosts for gpu in host.gpus]
    return sum(not gpu.usages and not gpu.blocked and gpu.id not in taken for gpu in gpus)


def one_by_one(snap: Snapshot, mix: Mix, enough: float) -> DefragMoves | NoDefragMoves:
    """Every number of empty GPUs, each on a fleet of its own."""
    best, least = DefragMoves(), SharesAfterMoves(snap.fleet, snap.residents, mix).now()
    number = empty_now(snap)
    while least > enough:
        number += 1
        found = plan_moves(snap.fleet, snap.residents, EmptyGpus(gpus=number))
        if isinstance(found, NoDefragMoves):
            return best if best.moves else found
        share = SharesAfterMoves(snap.fleet, moved(snap.residents, found.moves), mix).now()
        if share < least:
            best, least = found, share
    return best


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("seed", "enough"), [(1, 0.0), (2, 0.1), (3, 0.3)])
def test_moves_and_shares_are_those_of_a_fleet_built_anew(
    name: str, seed: int, enough: float
) -> None:
    snap = snapshot(replace(SHAPES[name], per_host=1), 4, seed)
    snap = replace(snap, residents=snap.residents[:6])
    mix = largest(snap)
    shares, planner = (
        SharesAfterMoves(snap.fleet, snap.residents, mix),
        MovePlanner(snap.fleet, snap.residents),
    )
    before = shares.now()
    for number in range(empty_now(snap) + 1, snap.allowed + 1):
        found = planner.plan(EmptyGpus(gpus=number))
        assert found == plan_moves(snap.fleet, snap.residents, EmptyGpus(gpus=number))
        if isinstance(found, DefragMoves):
            anew = SharesAfterMoves(snap.fleet, moved(snap.residents, found.moves), mix)
            assert shares.after(found.moves) == anew.now()
            assert shares.now() == before
    assert lower(snap.fleet, snap.residents, mix, enough) == one_by_one(snap, mix, enough)
