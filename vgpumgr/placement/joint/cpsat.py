"""The program of a problem for CP-SAT. Needs ortools, which HiGHS cannot share a process with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from vgpumgr.placement.joint.makers import Fill, Share, choose_partitions
from vgpumgr.placement.joint.problem import Answer, Bin, Problem, Seat

Terms = list[Any]


def solver_is_there() -> bool:
    """Whether ortools can be imported."""
    return find_spec("ortools") is not None


def solve(problem: Problem) -> Answer:
    """The best that is found with the effort allowed; the same for the same problem.

    One thread, and an effort that is counted: two machines differ only where ``seconds`` end it.
    """
    cp_model: Any = import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    program = _Program(model, problem)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers, parameters.random_seed = 1, 0
    # Capacities are what it is about: 2 to 200 times less effort than at the level of the default.
    parameters.linearization_level = 2
    parameters.max_deterministic_time = problem.effort
    parameters.max_time_in_seconds = problem.seconds
    status = solver.solve(model)
    effort = solver.response_proto.deterministic_time
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer((), (), effort)
    return program.answer(solver, effort)


class _Program:
    def __init__(self, model: Any, problem: Problem) -> None:
        self._problem = problem
        self._bins = [_BinProgram(model, problem, each) for each in problem.bins]
        taken: defaultdict[int, Terms] = defaultdict(list)
        for each in self._bins:
            for group, held in each.held.items():
                taken[group].append(held)
        placed: Terms = []
        milli: Terms = []
        for number, terms in taken.items():
            of = problem.groups[number]
            model.add(sum(terms) <= of.count)
            placed += terms
            milli += [of.milli * term for term in terms]
        model.add(sum(milli) >= problem.milli)
        model.add(sum(placed) > problem.above)
        model.maximize(sum(placed))

    def answer(self, solver: Any, effort: float) -> Answer:
        return Answer(
            effort=effort,
            held=tuple(each.taken(solver) for each in self._bins),
            seats=tuple(tuple(each.seats(solver)) for each in self._bins),
        )


class _BinProgram:
    """One host: ``held`` VMs by group, and the parts that its GPUs make."""

    def __init__(self, model: Any, problem: Problem, host: Bin) -> None:
        groups = problem.groups
        self.held = {n: model.new_int_var(0, groups[n].count, "") for n in host.takes}
        wanted: defaultdict[int, Terms] = defaultdict(list)
        for number, held in self.held.items():
            for column, count in groups[number].needs:
                wanted[column].append(count * held)
        self._makers: list[Share | Fill] = [
            *(Share(model, each, set(wanted)) for each in host.shared),
            *(Fill(model, each) for each in host.filled),
        ]
        made: defaultdict[int, Terms] = defaultdict(list)
        for maker in self._makers:
            for column, parts in maker.made():
                made[column].append(parts)
        for column, terms in wanted.items():
            model.add(sum(terms) <= sum(made[column]))
        model.add(sum(groups[n].vcpus * held for n, held in self.held.items()) <= host.vcpus)
        memory = (groups[n].memory_mib * held for n, held in self.held.items())
        model.add(sum(memory) <= host.memory_mib)
        if host.partitions:
            self._partition(model, problem, host.partitions)

    def _partition(
        self, model: Any, problem: Problem, partitions: tuple[tuple[int, ...], ...]
    ) -> None:
        """Of GPUs that an NVSwitch connects, each is a maker by itself."""
        whole = {
            maker.gpus[0]: sum(made for column, made in maker.made() if column in maker.whole)
            for maker in self._makers
        }
        columns = {column for maker in self._makers for column in maker.whole}
        held: defaultdict[int, Any] = defaultdict(int)
        for number, vms in self.held.items():
            needs = problem.groups[number].needs
            held[sum(count for column, count in needs if column in columns)] += vms
        held.pop(0, None)
        choose_partitions(model, partitions, whole, held)

    def taken(self, solver: Any) -> tuple[tuple[int, int], ...]:
        """(group, how many) of those that are here."""
        found = ((number, solver.value(held)) for number, held in self.held.items())
        return tuple((number, count) for number, count in found if count)

    def seats(self, solver: Any) -> Iterator[Seat]:
        """Every part that is made."""
        for maker in self._makers:
            yield from maker.seats(solver)
