"""The solver's process: an answer, or none in the time it has; and it is gone afterwards."""

from __future__ import annotations

import pytest

from vgpumgr.app import solver_process
from vgpumgr.placement.batch.batch_problem import BatchGroup, BatchProblem, Bin, SharedGpus

ONE = BatchProblem(
    bins=(Bin(4, 4096, (0,), (SharedGpus((0,), 16, ((0, 8),), ()),), (), ()),),
    groups=(BatchGroup(1, 1024, ((0, 1),), 3, 500),),
    above=0,
    milli=0,
    effort=1.0,
    seconds=10.0,
)


def test_it_answers_one_problem_after_the_other() -> None:
    with solver_process.solving() as solve:
        assert solve is not None
        for _ in range(2):
            answer = solve(ONE)
            assert answer is not None
            assert answer.held == (((0, 2),),)
            assert answer.seats == (((0, 0), (0, 0)),)


@pytest.mark.parametrize("module", ["this", "no.such.module"])
def test_what_is_no_answer_is_none(module: str) -> None:
    with solver_process.solving(module) as solve:
        assert solve is not None
        assert solve(ONE) is None
        assert solve(ONE) is None


def test_it_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_process, "STARTS_S", 0.2)
    with solver_process.solving(
        "json.tool"
    ) as solve:  # it reads until the end, which does not come
        assert solve is not None
        assert solve(BatchProblem(ONE.bins, ONE.groups, 0, 0, 1.0, seconds=0.1)) is None


def test_without_ortools_there_is_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpumgr.placement.batch.cp_sat.find_spec", lambda _: None)
    with solver_process.solving() as solve:
        assert solve is None
