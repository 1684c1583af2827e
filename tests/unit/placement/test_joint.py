"""VMs of an order decided together: what a solver is asked, and what becomes of its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import combinations

import pytest

from tests.unit.placement.test_geometry import A100
from tests.unit.placement.test_place import BREADTH, LEAST, copies, gpu, host, vm, where
from vgpumgr.app.solver_process import solving
from vgpumgr.model.supply import Fleet, Offer, PartitionSupply
from vgpumgr.model.vm import Affinity, VmSpec
from vgpumgr.placement import place
from vgpumgr.placement.batch import neighbourhood
from vgpumgr.placement.batch import neighbourhood_search as orders
from vgpumgr.placement.batch.batch_problem import NOTHING_BETTER, BatchAnswer, BatchProblem, Solve
from vgpumgr.placement.batch.neighbourhood import Neighbourhood
from vgpumgr.placement.batch.neighbourhood_search import EFFORT


@pytest.fixture(scope="module")
def cpsat() -> Iterator[Solve]:
    with solving() as solve:
        assert solve is not None
        yield solve


class Asked:
    """A solver that keeps what it was asked, and answers as it is told to."""

    def __init__(
        self, answer: Callable[[BatchProblem], BatchAnswer | None] = lambda _: None
    ) -> None:
        self.problems: list[BatchProblem] = []
        self.closed = 0
        self._answer = answer

    @contextmanager
    def __call__(self) -> Iterator[Solve]:
        yield self._solve
        self.closed += 1

    def _solve(self, problem: BatchProblem) -> BatchAnswer | None:
        self.problems.append(problem)
        return self._answer(problem)


def always(solve: Solve) -> Callable[[], AbstractContextManager[Solve]]:
    return lambda: nullcontext(solve)


def whole(*vcpus: int) -> list[VmSpec]:
    """VMs that take a GPU each."""
    return [vm("T4-16Q", name=f"vm-{n}", vcpus=each) for n, each in enumerate(vcpus)]


# One by one, 5 and 2 are put on the second host, and nothing of four is left.
TIGHT = Fleet(
    hosts=(host("0", gpu("0a"), gpu("0b"), vcpus=6), host("1", gpu("1a"), gpu("1b"), vcpus=8))
)
ORDER = whole(3, 5, 4, 2)


def test_what_does_not_fit_one_by_one_fits_together(cpsat: Solve) -> None:
    assert where(place(TIGHT, ORDER, LEAST)).count("-") == 1
    together = place(TIGHT, ORDER, LEAST, solver=always(cpsat))
    assert sorted(where(together)) == ["0a", "0b", "1a", "1b"]
    assert [each.request for each in together] == ORDER
    assert together == place(TIGHT, ORDER, LEAST, solver=always(cpsat))


def test_it_is_asked_only_where_it_can_help() -> None:
    asked = Asked()
    place(TIGHT, ORDER[:2], LEAST, solver=asked)
    place(TIGHT, whole(9), LEAST, solver=asked)
    place(TIGHT, ORDER, BREADTH, solver=asked)
    place(TIGHT, [replace(each, policy=BREADTH) for each in ORDER], LEAST, solver=asked)
    assert asked.problems == [] and asked.closed == 0
    place(TIGHT, ORDER, LEAST, solver=asked)
    assert len(asked.problems) == 1 and asked.closed == 1


def test_without_an_answer_it_is_as_it_was_one_by_one() -> None:
    empty = BatchAnswer(held=((), ()), seats=((), ()), effort=0.1)
    for solve in (lambda _: None, lambda _: NOTHING_BETTER, lambda _: empty):
        assert place(TIGHT, ORDER, LEAST, solver=Asked(solve)) == place(TIGHT, ORDER, LEAST)


def test_its_effort_is_counted_over_all_windows() -> None:
    asked = Asked(lambda _: NOTHING_BETTER)
    place(TIGHT, ORDER, LEAST, solver=asked)
    assert [problem.effort for problem in asked.problems] == [EFFORT]
    cut = Fleet(
        hosts=tuple(replace(each, name=f"{each.name}{n}") for each in TIGHT.hosts for n in range(9))
    )
    many = [replace(each, name=f"{each.name}-{n}") for each in ORDER for n in range(9)]
    spent = Asked(lambda problem: BatchAnswer((), (), problem.effort))
    place(cut, many, LEAST, solver=spent)
    assert len(spent.problems) > 1
    assert sum(problem.effort for problem in spent.problems) == pytest.approx(EFFORT)


def test_no_large_vm_is_given_up_for_two_small_ones(cpsat: Solve) -> None:
    fleet = Fleet(hosts=(host("h", gpu("a"), vcpus=16),))
    batch = [vm("T4-16Q", name="large"), *copies(2, vm("T4-4Q"))]
    batch = [replace(each, name=f"{n}") for n, each in enumerate(batch)]
    first = [replace(batch[0], vcpus=8), *batch[1:]]
    window = Neighbourhood(fleet, dict(enumerate(first)))
    problem = window.problem({0}, 1.0, 10.0)
    assert problem is not None and problem.milli == 1000
    assert found(cpsat, problem) == 0
    assert found(cpsat, replace(problem, milli=0)) == 2


NEAR = ("db", "not-near")


def test_vms_with_company_stay_and_so_do_their_hosts() -> None:
    apart = Affinity(apart_from={"app": "db"})
    batch = [*whole(4, 4, 4), vm("T4-16Q", name="db", labels={"app": "db"}, vcpus=4)]
    batch.append(vm("T4-16Q", name="not-near", affinity=apart, vcpus=4))
    fleet = Fleet(hosts=tuple(host(f"{n}", gpu(f"{n}a")) for n in range(5)))
    decisions = dict(enumerate(place(fleet, batch, LEAST)))
    del decisions[0]
    order = orders.BatchOrder(fleet, batch, decisions)
    assert order.waiting == [0]
    (hosts,) = order.windows(1000)
    with_company = {each.host for each in order.placed.values() if each.request.name in NEAR}
    assert {each.name for each in hosts} == {each.name for each in fleet.hosts} - with_company
    assert list(order.members(hosts)) == [0, 1, 2]


def test_of_many_hosts_those_of_the_order_and_then_the_emptiest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orders, "MOST_HOSTS", 2)
    held = host("held", gpu("a", 8, 4), vcpus=8)
    hosts = (host("full", gpu("b", 16)), host("half", gpu("c", 8)), held, host("off", gpu("d")))
    fleet = Fleet(hosts=(*hosts[:3], replace(hosts[3], blocked="cordoned")))
    batch = copies(2, vm("T4-4Q"))
    (placed,) = place(Fleet(hosts=(held,)), batch[:1], LEAST)
    order = orders.BatchOrder(fleet, batch, {0: placed})
    assert [each.name for each in next(order.windows(99))] == ["half", "held"]


def test_every_host_is_in_one_window() -> None:
    fleet = Fleet(hosts=tuple(host(f"{n}", gpu(f"{n}a")) for n in range(23)))
    order = orders.BatchOrder(fleet, whole(*[4] * 40), {})
    for vms in (4, 32, 99):
        names = [each.name for hosts in order.windows(vms) for each in hosts]
        assert sorted(names) == sorted(each.name for each in fleet.hosts)


def test_an_nvswitch_gives_whole_gpus_as_its_partitions_say(cpsat: Solve) -> None:
    """Two pairs, and one GPU of each may go alone: two VMs of one leave no pair for another VM."""
    sets = ["ab", "cd", "a", "c"]
    partitions = tuple(PartitionSupply(id=n, gpus=frozenset(each)) for n, each in enumerate(sets))
    fleet = Fleet(hosts=(replace(host("h", *map(gpu, "abcd")), partitions=partitions),))
    batch = [*copies(2, vm("passthrough")), vm("passthrough", "passthrough", name="two")]
    problem = Neighbourhood(fleet, dict(enumerate(batch))).problem((), 1.0, 10.0)
    assert problem is not None
    assert found(cpsat, replace(problem, above=1)) == 2
    assert found(cpsat, replace(problem, above=2)) == 0
    loose = replace(problem, bins=tuple(replace(each, partitions=()) for each in problem.bins))
    assert found(cpsat, replace(loose, above=2)) == 3


def found(solve: Solve, problem: BatchProblem) -> int:
    """How many VMs it finds places for."""
    answer = solve(problem)
    assert answer is not None
    return sum(count for held in answer.held for _, count in held)


PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb")


def test_a_mig_gpu_is_filled_in_every_way_that_leaves_no_room() -> None:
    requests = {n: vm(profile) for n, profile in enumerate(PROFILES)}
    window = Neighbourhood(Fleet(hosts=(host("h", A100),)), requests)
    problem = window.problem((), 1.0, 1.0)
    assert problem is not None
    (filled,) = problem.bins[0].filled
    names = [part.kind.profile for part in window.parts]
    ways = [tuple(sorted(names[column] for column in way)) for way in filled.fillings]
    assert len(ways) == len(set(ways))
    assert set(ways) == set(full_gpus())


def full_gpus() -> Iterator[tuple[str, ...]]:
    """What lies on an A100 to which nothing can be added: every set of places that is allowed."""
    places = [
        (offer, frozenset(start.slots))
        for offer in A100.offers
        if offer.profile in PROFILES
        for start in offer.starts
    ]
    allowed = [each for n in range(8) for each in combinations(places, n) if _allowed(each)]
    for each in allowed:
        if not any(_allowed((*each, more)) for more in places if more not in each):
            yield tuple(sorted(offer.profile for offer, _ in each))


def _allowed(places: tuple[tuple[Offer, frozenset[int]], ...]) -> bool:
    slots = [slot for _, taken in places for slot in taken]
    made = [offer.instance for offer, _ in places if offer.instance]
    counts = Counter(offer for offer, _ in places)
    return (
        len(slots) == len(set(slots))
        and sum(each.gpu_slices for each in made) <= A100.gpu_slices
        and all(count <= offer.max_instances for offer, count in counts.items())
    )


def test_a_gpu_that_can_be_filled_in_too_many_ways_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbourhood, "MOST_FILLINGS", 3)
    asked = Asked()
    fleet = Fleet(hosts=(host("h", A100),))
    decisions = place(fleet, [vm(p, name=p) for p in PROFILES * 2], LEAST, solver=asked)
    assert asked.problems == [] and "-" in where(decisions)
