"""Orders decided together: whatever a solver says, what comes of it is allowed, true, no worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.placement_checker import complaints
from tests.property.scenes import scenes
from tests.property.test_placement_churn import Brute
from vgpumgr.app.solver_process import solving
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import place
from vgpumgr.placement.batch.batch_problem import BatchAnswer, BatchProblem, Bin, Solve

LEAST = PlacementPolicy.CAPACITY_FIRST
Scene = tuple[Fleet, list[VmSpec]]

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def cpsat() -> Iterator[Solve]:
    with solving() as solve:
        assert solve is not None
        yield solve


@st.composite
def orders(draw: st.DrawFn) -> Scene:
    """More than fits, mostly: some of it several times."""
    fleet, kinds = draw(scenes(most=4))
    batch = [kind for kind in kinds for _ in range(draw(st.integers(1, 4)))]
    batch = [replace(each, name=f"vm-{n}", policy=None) for n, each in enumerate(batch)]
    return fleet, draw(st.permutations(batch))


@quick
@given(orders())
def test_an_order_is_placed_by_the_rules_and_never_worse(cpsat: Solve, scene: Scene) -> None:
    fleet, batch = scene
    alone = place(fleet, batch, LEAST)
    together = place(fleet, batch, LEAST, solver=lambda: nullcontext(cpsat))
    _holds(fleet, batch, alone, together)


@quick
@given(orders(), st.data())
def test_a_solver_that_lies_does_no_harm(scene: Scene, data: st.DataObject) -> None:
    fleet, batch = scene

    def lie(problem: BatchProblem) -> BatchAnswer:
        counts = st.tuples(st.integers(0, len(problem.groups) - 1), st.integers(1, 5))
        held = st.lists(counts, max_size=4, unique_by=lambda pair: pair[0]).map(tuple)
        gpus = [sorted(_gpus(each)) for each in problem.bins]
        columns = sorted({column for group in problem.groups for column, _ in group.needs}) or [0]
        seats = [
            st.lists(st.tuples(st.sampled_from(known), st.sampled_from(columns)), max_size=6)
            if known
            else st.just([])
            for known in gpus
        ]
        return BatchAnswer(
            held=tuple(data.draw(held) for _ in problem.bins),
            seats=tuple(tuple(data.draw(each)) for each in seats),
            effort=0.1,
        )

    together = place(fleet, batch, LEAST, solver=_always(lie))
    _holds(fleet, batch, place(fleet, batch, LEAST), together)


def _gpus(host: Bin) -> set[int]:
    cut = {gpu for each in host.shared for gpu in each.gpus}
    return cut | {gpu for each in host.filled for gpu in each.gpus}


def _always(solve: Solve) -> Callable[[], AbstractContextManager[Solve]]:
    return lambda: nullcontext(solve)


def _holds(
    fleet: Fleet, batch: list[VmSpec], alone: tuple[Decision, ...], together: tuple[Decision, ...]
) -> None:
    assert [each.request for each in together] == batch
    placed = [each for each in together if isinstance(each, Placed)]
    assert complaints(fleet, placed) == []
    before = [each for each in alone if isinstance(each, Placed)]
    assert len(placed) >= len(before)
    brute = Brute(fleet, LEAST)
    for each in _one_after_another(placed):
        brute.take(each)
    for refused in together:
        if not isinstance(refused, Placed):
            assert not brute.fits(refused.request)
            assert refused.reasons


def _one_after_another(placed: list[Placed]) -> Iterator[Placed]:
    """Makers of GPU instances before those that live in them."""
    left = list(placed)
    while left:
        made = {(p.gpu, p.start) for each in left for p in each.assignments if p.make_instance}
        ready = [
            each
            for each in left
            if all(
                p.make_instance or (p.gpu, p.start) not in made - _makes(each)
                for p in each.assignments
            )
        ]
        assert ready
        yield from ready
        left = [each for each in left if each not in ready]


def _makes(placed: Placed) -> set[tuple[str, int | None]]:
    return {(part.gpu, part.start) for part in placed.assignments if part.make_instance}
