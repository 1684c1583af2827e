"""The optimum beside which moves are counted, and the checker that every step passes."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.repacking.checker import check
from benchmarks.placement.repacking.problem import counted, problem
from benchmarks.placement.repacking.snapshots import Snapshot, shapes, snapshot
from benchmarks.placement.solver import Solver
from vgpumgr.model.defrag import DefragMoves, EmptyGpus
from vgpumgr.placement.defrag.move_search import plan_moves


def planned(snap: Snapshot, empty: int) -> DefragMoves:
    found = plan_moves(snap.fleet, snap.residents, EmptyGpus(gpus=empty))
    assert isinstance(found, DefragMoves)
    return found


@pytest.mark.skipif(find_spec("ortools") is None, reason="the extra solver is not installed")
def test_the_oracle_agrees_where_counting_proves_the_optimum() -> None:
    with Solver("benchmarks.placement.repacking.oracle") as oracle:
        for name, shape in shapes().items():
            snap = snapshot(shape, 8, 3)
            asked = problem(snap, 1, 60.0)
            answer = oracle.ask(asked)
            assert answer["status"] == "optimal"
            assert counted(asked) <= answer["moves"] <= len(planned(snap, 1).moves), name
            if snap.poolable:
                assert oracle.ask({**asked, "pooled": True})["bound"] <= answer["moves"]
        too_many = problem(snapshot(shapes()["1-D"], 8, 3), 8, 60.0)
        assert oracle.ask(too_many)["status"] == "infeasible"


def test_the_checker_refuses_what_cannot_be() -> None:
    snap = snapshot(shapes()["same-size"], 16, 1)
    found = planned(snap, 3)
    check(snap.fleet, snap.residents, found.moves, 3)
    first, *rest = found.moves
    with pytest.raises(InvalidPlacement, match="were promised"):
        check(snap.fleet, snap.residents, rest, 3)
    with pytest.raises(InvalidPlacement, match="is not there"):
        check(snap.fleet, snap.residents, [first, *found.moves], 3)
    other = next(r.placed for r in snap.residents if r.placed.host != first.source.host)
    with pytest.raises(InvalidPlacement, match="slots"):
        onto = replace(first, target=replace(other, request=first.source.request))
        check(snap.fleet, snap.residents, [onto], 0)
